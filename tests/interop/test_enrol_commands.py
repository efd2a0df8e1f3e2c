"""The page enrol.md as it stands: the commands at a hub and at three boxes; what `leafd init leaf --enrol` does when
something is wrong; TLS; a hub in operator mode.

What the page calls hub.example.org is this machine, on ports that are free. Not here: logins that no
command makes (test_enrol.py).
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import nats
import pytest

from tests import servers
from tests.bench.process import Api
from tests.certificates import Authority
from tests.interop.enrolment import BOX, HUB, Login, close_all, leafd, report, token, within
from tests.jwts import Key, Operator
from tests.rig.reloads import reloaded
from tests.servers import LEAFD, Server, free_port, running

PAGE: Final = Path(__file__).resolve().parents[2] / "packaging" / "doc" / "enrol.md"


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_all()


def init(directory: Path, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """`leafd init leaf` for a box whose files go into that directory."""
    command = [
        sys.executable,
        "-m",
        "leafd",
        "init",
        "leaf",
        *words,
        "--dir",
        str(directory),
        "--store",
        str(directory),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, input=typed)


def url(server: Server) -> str:
    return f"nats-leaf://127.0.0.1:{server.ports['leaf_port']}"


class Walk:
    """A hub's and some boxes' machines, each with a directory in place of /etc/leafd, and ports in place of the usual
    ones."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.leaf_port = free_port()
        self.servers: dict[str, Server] = {}
        text = PAGE.read_text()
        self.commands = re.findall(r"(?m)^ {4}(leafd .*)$", text)
        self.blocks = re.findall(r"```\n(.*?)```", text, re.S)

    def type(self, line: str, at: str, *more: str) -> str:
        """A command of the page, typed at one of the machines; what it said on standard output."""
        place = self.directory / at
        place.mkdir(exist_ok=True)
        line = line.replace("hub.example.org:7422", f"127.0.0.1:{self.leaf_port}")
        line = line.replace("hub.example.org", "127.0.0.1").replace("/etc/leafd", str(self.directory / "hub"))
        words = [*shlex.split(line)[1:], *more]
        if words[0] == "init":
            words += ["--dir", str(place), "--store", str(place / "store")]
        elif words[:2] == ["hub", "certificate"]:
            words += ["--dir", str(place)]
        else:
            words += ["-c", str(place / "leafd.conf")]
        done = servers.leafd(*words)
        assert done.returncode in (0, 3), (words, done)
        return done.stdout

    def restrict(self, at: str) -> None:
        """Boxes may do what the page's block of permissions says."""
        path = self.directory / at / "leafd.conf"
        (rights,) = re.findall(r"permissions \{.*?\n  \}", PAGE.read_text(), re.S)
        path.write_text(path.read_text().replace("enrol { ", f"enrol {{ {rights}\n"))

    def restart(self, at: str) -> None:
        """`systemctl restart leafd`, with what init wrote, on other ports."""
        place = self.directory / at
        ports = {"port": free_port(), "http_port": free_port()}
        text = (place / "leafd.conf").read_text()
        for usual, port in (("4222", ports["port"]), ("8222", ports["http_port"])):
            text = text.replace(f"127.0.0.1:{usual}", f"127.0.0.1:{port}")
        text = text.replace("0.0.0.0:7422", f"127.0.0.1:{self.leaf_port}")
        (place / "leafd.conf").write_text(text)
        server = self.servers[at] = Server(LEAFD, place, "", ports)
        server.start("leafd.conf")


def test_a_newcomer_enrols_three_boxes_by_the_words_of_the_page(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    made, ticket, enrol, boxes, by_key, add, retire, certificate = walk.commands
    with ExitStack() as stack:
        walk.type(made, "hub")
        walk.restart("hub")
        stack.callback(walk.servers["hub"].stop)
        for number in (1, 2, 3):
            name = f"box-000{number}"
            text = walk.type(ticket.replace("box-0001", name), "hub").strip()
            walk.type(enrol.replace("box-0001", name).replace("TOKEN", text), name)
            with (tmp_path / name / "leafd.conf").open("a") as file:
                file.write(walk.blocks[0].replace("box-0001", name))
            walk.restart(name)
            stack.callback(walk.servers[name].stop)
            asyncio.run(_published(walk.servers[name], f"telemetry.{name}.temperature"))
        hub = walk.servers["hub"]
        within(20, lambda: _collected(hub) == 3)
        within(10, lambda: [0, 0, 0] == [one["behind"] for one in report(hub)["boxes"]])
        shown = walk.type(boxes, "hub")
        assert "3 of 3 boxes are linked" in shown
        assert "box-0002" in shown
        said = walk.type(by_key, "box-0004")
        entered = re.search(r"leafd hub add \w+ box-0004", said)
        assert entered
        assert add.split()[:3] + add.split()[4:] == entered[0].split()[:3] + entered[0].split()[4:]
        walk.restart("box-0004")
        stack.callback(walk.servers["box-0004"].stop)
        walk.type(entered[0], "hub")  # it is refused until then, and let in when it comes again
        within(180, lambda: "4 of 4 boxes are linked" in walk.type("leafd hub list", "hub"))
        walk.type(retire, "hub")
        walk.type("leafd hub remove box-0004", "hub")
        within(10, lambda: report(hub)["total"] == 2 and _collected(hub) == 3)
        assert "2 of 2 boxes are linked" in walk.type(boxes, "hub")
        before = (tmp_path / "hub" / "hub-ca.pem").read_bytes()
        walk.type(certificate, "hub")
        hub.stop()
        walk.restrict("hub")
        hub.start("leafd.conf")
        within(180, lambda: "2 of 2 boxes are linked" in walk.type(boxes, "hub"))
        asyncio.run(_published(walk.servers["box-0002"], "telemetry.box-0002.temperature"))
        within(20, lambda: _collected(hub) == 4)
        assert before == (tmp_path / "hub" / "hub-ca.pem").read_bytes()


async def _published(server: Server, subject: str) -> None:
    client = await nats.connect(server.url)
    await client.jetstream().publish(subject, b"21.5")
    await client.close()


def _collected(server: Server) -> int:
    found = report(server, "/jsz?accounts=1&streams=1")
    return sum(
        one["state"]["messages"] for account in found["account_details"] for one in account.get("stream_detail") or ()
    )


def test_the_blocks_of_the_page_are_configurations(tmp_path: Path) -> None:
    """Each of those for a hub, in place of the block that init wrote."""
    text = re.sub(r"\{(\w+)\}", "1", HUB).replace("enrol { account: BOXES }", "%s")
    operator = Operator()
    boxes = operator.account("BOXES")
    seed = tmp_path / "box-signing.nk"
    seed.write_text(Key("account").seed)
    for block in re.findall(r"```\n(enrol .*?)```", PAGE.read_text(), re.S):
        here = block.replace('"A..."', f'"{boxes.public}"').replace("/etc/leafd/box-signing.nk", str(seed))
        hub = text % here
        if "signing_key" in here:
            preload = f"resolver_preload {{ {boxes.public}: {boxes.token()} }}"
            head = f"port: 1\nleafnodes {{ port: 2 }}\noperator: {operator.token()}\nresolver: MEMORY\n"
            hub = f"{head}{preload}\n{here}"
        file = tmp_path / "hub.conf"
        file.write_text(hub)
        done = servers.leafd("check", file)
        assert done.returncode in (0, 3), done


# ---- at the box


@pytest.fixture(scope="module")
def hub() -> Iterator[Server]:
    with running(LEAFD, HUB) as server:
        yield server


def test_a_token_comes_with_the_command_of_the_page(tmp_path: Path) -> None:
    """What is to be typed at the box, as it is printed, also takes the place of the package's file."""
    walk = Walk(tmp_path)
    with ExitStack() as stack:
        walk.type(walk.commands[0], "hub")
        walk.restart("hub")
        stack.callback(walk.servers["hub"].stop)
        hub = str(tmp_path / "hub" / "leafd.conf")
        printed = servers.leafd("enrol", "token", "--name", "box-0001", "-c", hub).stderr
        typed = next(line for line in printed.splitlines() if line.startswith("    ")).split()
        expected = walk.commands[2].split()

        assert [word for word in expected if "://" not in word] == [word for word in typed if "://" not in word]


def test_init_makes_the_key_itself_and_writes_no_token_down(hub: Server, tmp_path: Path) -> None:
    ticket = token(hub, "a-1")
    done = init(tmp_path, "--name", "a-1", "--enrol", url(hub), "-", typed=f"{ticket}\n")
    assert done.returncode == 0, done
    assert {"a-1.nk", "leafd.conf"} == {one.name for one in tmp_path.iterdir()}
    assert 0 == (tmp_path / "a-1.nk").stat().st_mode & 0o077
    assert not any(ticket.split("-")[2] in one.read_text() for one in tmp_path.iterdir())
    assert report(hub, "/boxz?boxes=a-1")["boxes"][0]["nkey"] not in (tmp_path / "leafd.conf").read_text()


def test_a_token_may_be_in_a_file(hub: Server, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{token(hub, 'b-1')}\n")
    done = init(tmp_path, "--name", "b-1", "--enrol", url(hub), f"@{tmp_path / 'token'}")
    assert done.returncode == 0, done


def test_the_same_command_again_goes_on_wherever_the_power_went(hub: Server, tmp_path: Path) -> None:
    """After the key and before the hub; after the hub and before the configuration; and when all is written. The key
    stays the same, so the used token is this box's."""
    ticket = token(hub, "c-1")
    words = ("--name", "c-1", "--enrol", url(hub), ticket)
    nobody = init(tmp_path, *words[:3], f"nats-leaf://127.0.0.1:{free_port()}", ticket)
    assert nobody.returncode == 1
    assert "the same command again goes on with the key" in nobody.stderr
    assert {"c-1.nk"} == {one.name for one in tmp_path.iterdir()}
    key = (tmp_path / "c-1.nk").read_text()
    assert init(tmp_path, *words).returncode == 0
    (tmp_path / "leafd.conf").unlink()
    assert init(tmp_path, *words).returncode == 0
    assert key == (tmp_path / "c-1.nk").read_text()
    again = init(tmp_path, *words)
    assert again.returncode == 1
    assert "there already" in again.stderr
    assert init(tmp_path, *words, "--force").returncode == 0
    assert key == (tmp_path / "c-1.nk").read_text()


def test_what_the_hub_has_against_it_is_said_at_the_box(hub: Server, tmp_path: Path) -> None:
    done = init(tmp_path, "--name", "d-2", "--enrol", url(hub), token(hub, "d-1"))
    assert done.returncode == 1
    assert "the token is for d-1, and the box calls itself d-2" in done.stderr
    assert not (tmp_path / "leafd.conf").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--enrol", "nats-leaf://h", "lfd1-X"), "that is no token"),
        (("--enrol", "nats-leaf://u:p@h", "lfd1-AAAAAAAA-" + "A" * 26), "has a login of its own"),
        (("--enrol", "nats-leaf://h", "lfd1-AAAAAAAA-" + "A" * 26, "--hub", "h"), "takes the place of --hub"),
        (("--hub", "h", "--address", "hub.example.org"), "--address and --no-tls are for a hub"),
        (("--enrol", "nats-leaf://h", "lfd1-AAAAAAAA-" + "A" * 26, "--ca", "x.pem"), "--ca is for a leaf"),
    ],
)
def test_a_command_line_that_is_wrong_writes_nothing(words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    done = init(tmp_path, "--name", "e-1", *words)
    assert done.returncode == 2, done
    assert why in done.stderr, done
    assert [] == list(tmp_path.iterdir())


# ---- TLS


def secured(server_block: str) -> str:
    return HUB.replace('leafnodes { listen: "127.0.0.1:{leaf_port}" }', server_block)


def test_a_token_brings_the_certificate_that_the_hub_is_checked_with(tmp_path: Path) -> None:
    """And who answers in its place, with a certificate of somebody else, hears neither token nor key."""
    authority, other = Authority(tmp_path), Authority(tmp_path, name="other")
    block = 'leafnodes { listen: "127.0.0.1:{leaf_port}", tls { cert_file: "%s", key_file: "%s" } }'
    mine = authority.issue("hub", names="IP:127.0.0.1")
    theirs = other.issue("thief", names="IP:127.0.0.1")
    text = secured(block % (mine.certificate, mine.key)).replace(
        "account: BOXES }", f'account: BOXES, ca_file: "{authority.certificate}" }}'
    )
    box = tmp_path / "box"
    with running(LEAFD, text) as server, running(LEAFD, secured(block % (theirs.certificate, theirs.key))) as thief:
        ticket = token(server, "box-1")
        assert ticket.count(".") == 1
        wrong = init(box, "--name", "box-1", "--enrol", url(thief), ticket)
        assert wrong.returncode == 1
        assert "is not trusted" in wrong.stderr
        assert "box-1" not in thief.log
        done = init(box, "--name", "box-1", "--enrol", url(server), ticket)
        assert done.returncode == 0, done
        assert (box / "hub-ca.pem").read_text().strip() == authority.certificate.read_text().strip()
        text = _elsewhere((box / "leafd.conf").read_text())
        (box / "leafd.conf").write_text(text)
        daemon = Server(LEAFD, box, "", {"port": int(re.findall(r"listen: 127.0.0.1:(\d+)", text)[0])})
        daemon.start("leafd.conf")
        try:
            within(20, lambda: report(server)["linked"] == 1)
        finally:
            daemon.stop()


def _elsewhere(text: str) -> str:
    return text.replace(":4222", f":{free_port()}").replace(":8222", f":{free_port()}")


def test_a_certificate_that_signed_itself_needs_no_ca_file(tmp_path: Path) -> None:
    subprocess.run(
        shlex.split(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -keyout key.pem "
            "-out cert.pem -subj /CN=hub -addext subjectAltName=IP:127.0.0.1"
        ),
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    block = 'leafnodes { listen: "127.0.0.1:{leaf_port}", tls { cert_file: "%s/cert.pem", key_file: "%s/key.pem" } }'
    with running(LEAFD, secured(block % (tmp_path, tmp_path))) as server:
        made = leafd(server, "enrol", "token", "--name", "box-1")
        assert "no TLS" not in made.stderr
        assert init(tmp_path / "box", "--name", "box-1", "--enrol", url(server), made.stdout.strip()).returncode == 0


def test_a_box_enrols_over_websocket(tmp_path: Path) -> None:
    text = HUB + 'websocket { listen: "127.0.0.1:{web_port}", no_tls: true }\n'
    with running(LEAFD, text) as server:
        done = init(
            tmp_path, "--name", "box-1", "--enrol", f"ws://127.0.0.1:{server.ports['web_port']}", token(server, "box-1")
        )
        assert done.returncode == 0, done


# ---- with an operator


OPERATED: Final = """
listen: "127.0.0.1:{port}"
server_name: hub
http: "127.0.0.1:{http_port}"
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
operator: %s
resolver: MEMORY
system_account: %s
resolver_preload { %s }
enrol { account: "%s", signing_key: "{directory}/signing.nk" }
"""


class Fleet:
    """An operator's hub, whose account of boxes has a scoped signing key."""

    def __init__(self, **template: Any) -> None:
        self.operator = Operator()
        self.boxes = self.operator.account("BOXES", disk_storage=-1, mem_storage=-1)
        self.signer = Key("account")
        self.boxes.nats["signing_keys"] = [
            {"kind": "user_scope", "key": self.signer.public, "role": "box", "template": template}
        ] if template else [self.signer.public]  # fmt: skip

    def text(self) -> str:
        """The hub's configuration as it is now."""
        accounts = ", ".join(f"{one.public}: {one.token()}" for one in self.operator.accounts)
        return OPERATED % (self.operator.token(), self.operator.system.public, accounts, self.boxes.public)

    def start(self, stack: ExitStack, directory: Path, declared: str = "") -> Server:
        """Runs the hub."""
        from tests.servers import make

        server = make(LEAFD, self.text() + declared, directory)
        (directory / "signing.nk").write_text(self.signer.seed)
        server.start()
        stack.callback(server.stop)
        return server


TEMPLATE: Final = {
    "pub": {"allow": ["telemetry.{{name()}}.>"]}, "sub": {"allow": ["commands.{{name()}}.>"]},
    "subs": -1, "data": -1, "payload": -1, "allowed_connection_types": ["LEAFNODE"],
}  # fmt: skip


def test_with_an_operator_a_box_has_the_rights_of_the_signing_key_s_template(tmp_path: Path) -> None:
    """It has no credentials file."""
    fleet, key = Fleet(**TEMPLATE), Key("user")
    with ExitStack() as stack:
        server = fleet.start(stack, tmp_path)
        login = Login(server, key, "box-1", auth_token=token(server, "box-1"))
        assert isinstance(login.answer, dict), (login.answer, server.log[-3000:])
        assert login.answer["export"] == {"allow": ["telemetry.box-1.>"]}
        assert login.answer["import"] == {"allow": ["commands.box-1.>"]}
        assert login.answer["remote_account"] == fleet.boxes.public
        login.close()
        again = Login(server, key, "box-1")
        assert again.is_in, (again.answer, server.log[-1500:])
        assert Login(server, Key("user"), "box-2").answer == "Authorization Violation"


def test_the_first_box_is_let_in_where_the_account_is_not_known_yet(tmp_path: Path) -> None:
    """A resolver with a directory looks an account up when somebody logs in: then it is known that the key has a
    template. Its limits are left out, as nsc does."""
    fleet = Fleet(sub={"allow": ["commands.{{name()}}.>"]})
    (tmp_path / f"{fleet.boxes.public}.jwt").write_text(fleet.boxes.token())
    resolver = f'resolver {{ type: full, dir: "{tmp_path}" }}'
    only_system = f"resolver_preload {{ {fleet.operator.system.public}: {fleet.operator.system.token()} }}"
    with ExitStack() as stack:
        text = re.sub(r"resolver_preload .*", only_system, fleet.text().replace("resolver: MEMORY", resolver))
        server = servers.make(LEAFD, text, tmp_path)
        (tmp_path / "signing.nk").write_text(fleet.signer.seed)
        server.start()
        stack.callback(server.stop)
        login = Login(server, Key("user"), "box-1", auth_token=token(server, "box-1"))
        assert isinstance(login.answer, dict), (login.answer, server.log[-3000:])
        assert login.answer["import"] == {"allow": ["commands.box-1.>"]}


def test_with_a_plain_signing_key_a_box_has_what_its_account_has(tmp_path: Path) -> None:
    fleet = Fleet()
    with ExitStack() as stack:
        server = fleet.start(stack, tmp_path)
        login = Login(server, Key("user"), "box-1", auth_token=token(server, "box-1"))
        assert isinstance(login.answer, dict), (login.answer, server.log[-3000:])
        assert "export" not in login.answer


COLLECTS: Final = 'streams { TELEMETRY { sources: [ { boxes: "box-*", name: TELEMETRY } ] } }\n'


def _collecting(server: Server, account: str) -> tuple[list[str], int]:
    """The domains that the hub's stream collects from, and how many messages it has."""
    for one in report(server, f"/jsz?acc={account}&streams=1&config=1")["account_details"]:
        for stream in one["stream_detail"]:
            sources = stream["config"].get("sources") or ()
            domains = [source["external"]["api"].split(".")[1] for source in sources]
            return domains, stream["state"]["messages"]
    return [], 0


def _rehearsed(directory: Path) -> subprocess.CompletedProcess[str]:
    return servers.leafd("-t", "-c", directory / "server.conf")


def test_with_an_operator_a_declared_stream_collects_from_the_boxes_of_its_pattern(tmp_path: Path) -> None:
    """It has a source for each of them from its enrolment until it is retired, also after a restart of the hub, and
    what a box stores arrives."""
    fleet, key = Fleet(), Key("user")
    account = fleet.boxes.public
    with ExitStack() as stack:
        server = fleet.start(stack, tmp_path, COLLECTS)
        names = {"name": "box-1", "hub": str(server.ports["leaf_port"]), "seed": key.seed}
        box = stack.enter_context(running(LEAFD, BOX, login=f"{token(server, 'box-1')}@", **names))
        api = Api(box.port)
        api.must("telemetry.box-1.a", {})
        within(60, lambda: _collecting(server, account) == (["box-1"], 1))
        assert Login(server, Key("user"), "box-2", auth_token=token(server, "box-2")).is_in
        within(60, lambda: _collecting(server, account)[0] == ["box-1", "box-2"])
        assert leafd(server, "enrol", "retire", "box-2").returncode == 0
        within(60, lambda: _collecting(server, account)[0] == ["box-1"])
        assert _rehearsed(tmp_path).returncode == 0
        server.stop()
        server.start(existing="server.conf")
        api.must("telemetry.box-1.b", {})
        within(60, lambda: _collecting(server, account) == (["box-1"], 2))
        api.close()
        assert "not as declared" not in server.log


@pytest.mark.parametrize(
    "declared",
    ["streams { OTHER { subjects: [ x ] } }", "consumers { TELEMETRY { c {} } }", "kv { STATE {} }"],
)
def test_with_an_operator_nothing_else_is_declared(tmp_path: Path, declared: str) -> None:
    """Whose account it would be nobody says."""
    fleet = Fleet()
    (tmp_path / "signing.nk").write_text(fleet.signer.seed)
    text = fleet.text().replace("{directory}", str(tmp_path)).replace("{store}", str(tmp_path / "store"))
    for number, name in enumerate(("port", "http_port", "leaf_port")):
        text = text.replace("{" + name + "}", str(10_000 + number))
    (tmp_path / "server.conf").write_text(text + declared)
    done = _rehearsed(tmp_path)
    assert done.returncode != 0
    assert "only streams that collect from boxes of enrol { account } are declared here" in done.stderr


def test_an_operator_s_revocation_and_retirement_both_end_a_box(tmp_path: Path) -> None:
    fleet, one, other = Fleet(**TEMPLATE), Key("user"), Key("user")
    with ExitStack() as stack:
        server = fleet.start(stack, tmp_path)
        first = Login(server, one, "box-1", auth_token=token(server, "box-1"))
        second = Login(server, other, "box-2", auth_token=token(server, "box-2"))
        leafd(server, "enrol", "retire", "box-1")
        assert first.ends() == "Authorization Violation"
        assert Login(server, one, "box-1").answer == "Authorization Violation"
        fleet.boxes.nats["revocations"] = {other.public: 4_000_000_000}
        _reload(server, fleet)
        second.ends()
        assert Login(server, other, "box-2").answer == "Authorization Violation"


def test_a_new_signing_key_takes_the_place_of_the_old_one_and_no_box_notices(tmp_path: Path) -> None:
    fleet, key = Fleet(**TEMPLATE), Key("user")
    with ExitStack() as stack:
        server = fleet.start(stack, tmp_path)
        Login(server, key, "box-1", auth_token=token(server, "box-1")).close()
        fleet.signer = Key("account")
        fleet.boxes.nats["signing_keys"][0]["key"] = fleet.signer.public
        (tmp_path / "signing.nk").write_text(fleet.signer.seed)
        _reload(server, fleet)
        again = Login(server, key, "box-1")
        assert again.is_in, (again.answer, server.log[-1500:])


def _reload(server: Server, fleet: Fleet) -> None:
    accounts = ", ".join(f"{one.public}: {one.token()}" for one in fleet.operator.accounts)
    text = (server.directory / "server.conf").read_text()
    reloaded(server, re.sub(r"resolver_preload \{.*\}", f"resolver_preload {{ {accounts} }}", text))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (('signing_key: "{directory}/signing.nk"', ""), "it takes account, by its key"),
        (('signing_key: "{directory}/signing.nk"', 'signing_key: "/dev/null"'), "signing_key"),
        (("leafnodes {", "no_leafnodes {"), "leaf listener"),
    ],
)
def test_an_operator_s_hub_that_could_enrol_nobody_does_not_start(
    tmp_path: Path, change: tuple[str, str], why: str
) -> None:
    from tests.servers import ServerDied, make

    fleet = Fleet(**TEMPLATE)
    text = fleet.text().replace(*change)
    text = re.sub(r"no_leafnodes .*\n", "", text)
    server = make(LEAFD, text, tmp_path)
    (tmp_path / "signing.nk").write_text(fleet.signer.seed)
    with pytest.raises(ServerDied, match=why):
        server.start()


def test_a_reload_changes_what_boxes_may_do_and_ends_links_that_may_do_less(hub: Server) -> None:
    import signal

    key = Key("user")
    login = Login(hub, key, "r-1", auth_token=token(hub, "r-1"))
    file = hub.directory / "server.conf"
    before = file.read_text()
    file.write_text(before.replace("account: BOXES }", 'account: BOXES, permissions { publish: "t.{{name()}}.>" } }'))
    assert hub.process is not None
    hub.process.send_signal(signal.SIGHUP)
    login.ends()
    again = Login(hub, key, "r-1")
    assert isinstance(again.answer, dict)
    assert again.answer["export"] == {"allow": ["t.r-1.>"]}
    file.write_text(before)
    hub.process.send_signal(signal.SIGHUP)
    again.ends()


def test_a_nats_server_that_is_enrolled_needs_no_token_any_more(hub: Server) -> None:
    """Its key alone, in a configuration that never had one."""
    from tests.servers import REFERENCE

    key = Key("user")
    Login(hub, key, "s-1", auth_token=token(hub, "s-1")).close()
    text = re.sub(r"streams .*\n", "", BOX)
    with running(REFERENCE, text, name="s-1", login="", hub=hub.ports["leaf_port"], seed=key.seed):
        within(20, lambda: report(hub, "/boxz?boxes=s-1")["linked"] == 1)


def test_reports_are_json_for_programs(hub: Server) -> None:
    made = leafd(hub, "enrol", "token", "--name", "t-*", "--uses", "3", "--json")
    found = json.loads(made.stdout)
    assert found["id"] in [one["id"] for one in json.loads(leafd(hub, "enrol", "tokens", "--json").stdout)]
    assert isinstance(json.loads(leafd(hub, "boxes", "--json").stdout), list)
