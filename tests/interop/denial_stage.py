"""Plays the cells of test_denials.py: each on leafd and on the reference, started from the same configuration, in an
account of its own; and waits until nothing more is to come.

    Cell                     one path, one denial, one line-up
    plain(), signed()        cells -> a configuration of all of them (and the logins that their JWTs are for)
    Stage                    a server, and the hub that it dials
    played(pair, cell)       what everybody has heard, on either server

Not here: paths (denial_paths.py), denials (denials.py), the lines (denial_wires.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests import servers
from tests.interop.denial_paths import DUE, EXPORTS, IMPORTS, OTHER_EXPORTS, OTHER_IMPORTS, PATHS, Path, Step
from tests.interop.denial_wires import Peer
from tests.interop.denials import LINE_UPS, LineUp, Rules, rules_of
from tests.jwts import Account, Operator, User

PATIENCE_S = 20.0
"""How long the two servers may take to come to the same."""
BRIEF_PATIENCE_S = 1.0
Heard = dict[str, list[str]]


@dataclass(frozen=True)
class Cell:
    """One path under one denial."""

    number: int
    line_up: str
    denial: str
    name: str

    @property
    def path(self) -> Path:
        return PATHS[self.name]

    @property
    def way(self) -> LineUp:
        return LINE_UPS[self.line_up]

    @property
    def rules(self) -> Rules:
        return rules_of(self.denial, self.path)

    @property
    def imports(self) -> bool:
        return bool(self.rules.get("imports", True))

    def named(self, letter: str) -> str:
        """The cell's own account C, the other one X, users u and o."""
        return f"{letter}{self.number}"

    def shared(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Imports with the accounts' names."""
        text = json.dumps(rows).replace('"account": "X"', f'"account": "{self.named("X")}"')
        found: list[dict[str, Any]] = json.loads(text.replace('"account": "C"', f'"account": "{self.named("C")}"'))
        return found


HEAD = """
listen: "127.0.0.1:{port}"
server_name: one
authorization { timeout: 60 }
jetstream { store_dir: "{store}", domain: one, max_memory_store: 1GB, max_file_store: 1GB }
"""


def plain(cells: Sequence[Cell]) -> str:
    """The accounts of a configuration."""
    accounts: dict[str, Any] = {"SYS": {"users": [{"user": "sys", "password": "p"}]}}
    remotes: list[dict[str, Any]] = []
    for cell in cells:
        user: dict[str, Any] = {"user": cell.named("u"), "password": "p"}
        everything = {"publish": ">", "subscribe": ">"}
        body: dict[str, Any] = {}
        if cell.path.stored:
            body["jetstream"] = "enabled"
        if mappings := cell.path.mappings:
            body["mappings"] = mappings
        if cell.way.place == "user" and "imports" not in cell.rules and cell.rules:
            user["permissions"] = cell.rules
        elif cell.way.place == "default" and cell.rules:
            body["default_permissions"] = cell.rules
        elif cell.way.actor == "hub":
            denied = cell.rules if cell.way.place == "remote" else {}
            remotes.append({"url": "nats-leaf://127.0.0.1:{hub_port}", "account": cell.named("C")} | denied)
        body["users"] = [user, {"user": cell.named("o"), "password": "p", "permissions": everything}]
        if cell.path.imports:
            other = {
                "jetstream": "enabled",
                "exports": OTHER_EXPORTS,
                "users": [{"user": cell.named("x"), "password": "p"}],
            }
            body["exports"] = EXPORTS
            if cell.imports:
                body["imports"], other["imports"] = cell.shared(IMPORTS), cell.shared(OTHER_IMPORTS)
            accounts[cell.named("X")] = other
        accounts[cell.named("C")] = body
    links = {"listen": "127.0.0.1:{leaf_port}", "authorization": {"timeout": 60}, "remotes": remotes}
    return f"{HEAD}\nsystem_account: SYS\naccounts: {json.dumps(accounts)}\nleafnodes: {json.dumps(links, indent=0)}\n"


def signed(cells: Sequence[Cell]) -> tuple[str, dict[str, User]]:
    """The same in JWTs."""
    operator = Operator("O")
    limits = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    logins: dict[str, User] = {}
    for cell in cells:
        own = operator.account(cell.named("C"), **limits)
        own.nats["mappings"] = {source: [{"subject": target}] for source, target in cell.path.mappings.items()}
        rules = {key: value for key, value in cell.rules.items() if key in ("subs", "payload")}
        logins[cell.named("u")] = own.user("u", **_claims(cell.rules), **rules)
        logins[cell.named("o")] = own.user("o")
        if cell.path.imports:
            other = operator.account(cell.named("X"), **limits)
            _exported(own, EXPORTS)
            _exported(other, OTHER_EXPORTS)
            logins[cell.named("x")] = other.user("x")
            if cell.imports:
                _imported(own, other, IMPORTS)
                _imported(other, own, OTHER_IMPORTS)
    links = 'leafnodes { listen: "127.0.0.1:{leaf_port}", authorization { timeout: 60 } }'
    return f"{HEAD}\n{operator.configuration()}\n{links}\n", logins


def _claims(rules: Rules) -> dict[str, Any]:
    """Permissions as JWTs write them."""
    found: dict[str, Any] = {"pub": rules.get("publish", {}), "sub": rules.get("subscribe", {})}
    responses = rules.get("allow_responses")
    if responses:
        found["resp"] = {"max": responses["max"], "ttl": 120_000_000_000}
    return found


def _exported(account: Account, rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        for kind, subject in row.items():
            account.export(subject, kind)


def _imported(account: Account, origin: Account, rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        kind = "service" if "service" in row else "stream"
        subject = row[kind]["subject"]
        local = row.get("to") or (f"{row['prefix']}.{subject}" if "prefix" in row else subject)
        account.imported(origin, subject, kind, local_subject=local)


@dataclass
class Stage:
    """A server, and the hub that it dials."""

    server: servers.Server
    logins: Mapping[str, User]
    dialled: dict[str, asyncio.Future[Peer]] = field(default_factory=dict)

    async def client(self, cell: Cell, letter: str) -> Peer:
        """A client's login."""
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.server.port))
        nonce = (await peer.info()).get("nonce", "")
        await peer.begin({"verbose": False, "headers": True, "protocol": 1} | self._login(cell, letter, nonce))
        return peer

    async def leaf(self, cell: Cell) -> Peer:
        """The user as a leaf."""
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.server.ports["leaf_port"]), link=True)
        nonce = (await peer.info()).get("nonce", "")
        name = f"box{cell.number}"
        known = {
            "version": "2.15.1",
            "server_id": "N" + name,
            "name": name,
            "cluster": name,
            "headers": True,
            "protocol": 1,
        }
        await peer.begin(known | self._login(cell, "u", nonce))
        return peer

    async def user(self, cell: Cell) -> Peer:
        """Whom the cell is about."""
        if cell.way.actor == "client":
            return await self.client(cell, "u")
        if cell.way.actor == "leaf":
            return await self.leaf(cell)
        return await asyncio.wait_for(self.dialled[cell.named("C")], 30)

    def _login(self, cell: Cell, letter: str, nonce: str) -> dict[str, str]:
        name = cell.named(letter)
        return self.logins[name].connect(nonce) if self.logins else {"user": name, "pass": "p"}


class Hub:
    """What a server dials: one link for each account."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        loop = asyncio.get_running_loop()
        self._cells = {cell.named("C"): cell for cell in cells if cell.way.actor == "hub"}
        self.dialled: dict[str, asyncio.Future[Peer]] = {name: loop.create_future() for name in self._cells}
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._greet, "127.0.0.1", 0, backlog=1000)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.sleep(0.1)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        info: dict[str, Any] = {
            "server_id": "NHUB", "server_name": "hub", "version": "2.15.1", "proto": 1, "headers": True,
            "max_payload": 1 << 20, "client_id": 1, "leafnode_urls": [f"127.0.0.1:{self.port}"],
            "info_on_connect": True, "jetstream": True, "domain": "hub",
        }  # fmt: skip
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        line = b""
        try:
            line = await reader.readline()
        except OSError:
            return
        finally:
            if not line:  # it has gone, or the hub goes before it has said anything
                writer.transport.abort()
        connect = json.loads(line.removeprefix(b"CONNECT ") or "{}")
        cell = self._cells.get(connect.get("remote_account", ""))
        if cell is None or self.dialled[cell.named("C")].done():
            writer.close()
            return
        info |= {"connect_info": True, "remote_account": "R"}
        if cell.way.place == "info":
            names = {"publish": "import", "subscribe": "export"}
            info |= {names[key]: value for key, value in cell.rules.items()}
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        peer = Peer(reader, writer, link=True)
        peer.listen()
        await peer.flush()
        self.dialled[cell.named("C")].set_result(peer)


class Play:
    """A cell on one of the servers."""

    def __init__(self, stage: Stage, cell: Cell) -> None:
        self._stage, self._cell = stage, cell
        self._peers: dict[str, Peer] = {}
        self._asked = 0
        self._looked: list[str] = []

    async def act(self) -> None:
        """Everything that is done."""
        path = self._cell.path
        owner = self._peers["o"] = await self._stage.client(self._cell, "o")
        for subject in ("t.>", "ok.>", "r.>", "found.>", *path.ears):
            owner.subscribe(subject)
        if path.imports:
            other = self._peers["x"] = await self._stage.client(self._cell, "x")
            for subject in ("t.>", "found.>"):
                other.subscribe(subject)
        self._peers["u"] = await self._stage.user(self._cell)
        await self._flush()
        last = ""
        for step in path.steps:
            if step.verb == "answer" or step.who != last:
                await self._flush()
            if step.verb == "answer":
                await self._flush()  # what the others' first one put on its way is here behind one's own second
            await self._step(step)
            last = step.who
        await self._flush()
        await self._flush()

    async def _flush(self) -> None:
        for peer in self._peers.values():
            await peer.flush()

    async def _step(self, step: Step) -> None:
        peer = self._peers.get(step.who)
        if peer is None:
            await asyncio.sleep(float(step.data))
        elif step.verb == "sub":
            peer.subscribe(step.subject, step.more)
        elif step.verb == "pub":
            due = time.strftime("@at %Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
            headers = {name: value.replace(DUE, due) for name, value in step.headers.items()}
            peer.publish(step.subject, step.more, step.data, headers)
        elif step.verb == "until":
            deadline = time.monotonic() + 3
            user = self._peers["u"]
            while time.monotonic() < deadline and not user.heard:
                if any(one.startswith(step.subject) for one in peer.heard):
                    break
                await asyncio.sleep(0.02)
        elif step.verb == "ask":
            found = await self._answer(step.who, step.subject, step.data)
            assert "refused" not in found, (self._cell, step, found)
        elif peer.reply:
            peer.publish(peer.reply, "", "answer")

    async def _answer(self, who: str, subject: str, body: str = "") -> str:
        peer = self._peers[who]
        self._asked += 1
        peer.publish(subject, f"found.{self._asked}", body)
        await peer.until_found(f"found.{self._asked}")
        return peer.found.get(f"found.{self._asked}", "nothing")

    async def heard(self) -> Heard:
        """What everybody knows by now."""
        await self._flush()
        advised = self._cell.path.target.startswith("$JS.EVENT")
        found = {
            name: sorted(one for one in peer.heard if advised or not one.startswith("$JS.EVENT"))
            for name, peer in self._peers.items()
        }
        if self._cell.path.looks:
            found["look"] = [await self._answer("o", f"$JS.API.{look}") for look in self._cell.path.looks]
        return found

    async def end(self) -> None:
        """Everybody goes."""
        for peer in self._peers.values():
            await peer.close()


async def played(
    pair: Sequence[Stage], cell: Cell, same: Callable[[Cell, Heard, Heard], bool], brief: bool
) -> list[Heard]:
    """What is heard on either server: when it is the same and nothing more is to come, or when the time is over."""
    plays = [Play(stage, cell) for stage in pair]
    try:
        await asyncio.gather(*(play.act() for play in plays))
        await asyncio.sleep(cell.path.settle_s)
        deadline = time.monotonic() + (BRIEF_PATIENCE_S if brief else PATIENCE_S)
        while True:
            found = await asyncio.gather(*(play.heard() for play in plays))
            if same(cell, *found) or time.monotonic() > deadline:
                return list(found)
            await asyncio.sleep(0.2)
    finally:
        for play in plays:
            await play.end()
