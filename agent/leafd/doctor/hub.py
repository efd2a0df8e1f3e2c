"""Reaches a hub as the daemon does, step by step: name, port, TLS, WebSocket, protocol, login. Each step that fails is
a finding.

What logs in is a leaf of its own that has the remote's credentials and a name that nobody else has; the hub puts it
into the same account as the daemon's link. So it sees what comes over that link, and can ask what the link could ask.
It has no JetStream, offers nothing, and leaves at the end.

Not here: what goes through the link (flows.py).
"""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import trio

from leafd.auth.creds import signer_from_credentials, signer_from_seed
from leafd.certificates import Certificate, Malformed, read_certificate
from leafd.config.schema.leafnodes import DEFAULT_PORT, LeafRemote
from leafd.config.schema.tls import Tls
from leafd.config.tls_files import as_file
from leafd.doctor import hub_web
from leafd.doctor.findings import Check, Finding, fault, unproven, well
from leafd.doctor.wire import End, Line, Session, TlsEnd, info_of, token, verb
from leafd.errors import ConfigError
from leafd.links.addresses import certificate_name, dial_error, place_of, split_url
from leafd.links.dialling import NoTunnel, Patience, Proxy, connect, proxy_of
from leafd.links.web import ask
from leafd.quoting import quoted
from leafd.records import dataclass

STEP_S: Final = 5.0
"""For each of name, port, first line, handshake, login."""
VERSION: Final = "2.15.1"
GLOBAL: Final = "$G"
PROTOCOL: Final = 3
_NAMES: Final = (62, 64)
"""OpenSSL's codes for a certificate with another name, or another address."""
_EXPIRED, _NOT_YET = 10, 9
_WSS: Final = "if the hub's websocket has TLS: write wss:// in place of ws:// in the remote's url"


@dataclass(frozen=True, slots=True)
class Hub:
    """A hub that let us in."""

    place: str
    remote: LeafRemote
    info: Mapping[str, Any]
    session: Session
    certificate: Certificate | None

    @property
    def domain(self) -> str:
        """The domain of the hub's JetStream, "" without one."""
        return str(self.info.get("domain") or "")

    @property
    def account(self) -> str:
        """The account there that the link is in, "" where the hub does not say."""
        return str(self.info.get("remote_account") or "")


class _Stop(Exception):
    """A step failed, with the finding that says how."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


async def reach(
    remote: LeafRemote,
    url: str,
    report: Callable[[Finding], None],
    introduction: Mapping[str, str] | None = None,
    step_s: float | None = None,
) -> Hub | None:
    """Goes as far as it gets; None: not to a login. introduction: what CONNECT says besides, in place of a name that
    nobody else has. step_s: how long each step may take, for a box that has to get there over a bad line."""
    host, port, user, password = split_url(url)
    place = place_of(url) + ("" if remote.account == GLOBAL else f" ({remote.account})")
    attempt = _Attempt(remote, host, port, place, report, web=urlsplit(url).path if hub_web.is_web(url) else None)
    attempt.introduction = introduction or {}
    attempt.step_s = step_s or STEP_S
    try:
        return await attempt.run(user, password)
    except _Stop as stop:
        report(stop.finding)
        return None


class _Attempt:
    """One walk from the name to the login."""

    def __init__(
        self,
        remote: LeafRemote,
        host: str,
        port: int,
        place: str,
        report: Callable[[Finding], None],
        *,
        web: str | None = None,
    ) -> None:
        """web: over WebSocket, with this path in the url."""
        self._remote = remote
        self._host = host
        self._port = port
        self.place = place
        self._report = report
        self._web = web
        # As when the daemon dials: TLS of one address is TLS of all.
        self._tls_wanted = remote.tls is not None or any(urlsplit(one).scheme in ("tls", "wss") for one in remote.urls)
        block_first = remote.tls is not None and remote.tls.handshake_first[0]
        self._tls_first = self._tls_wanted if web is not None else block_first
        self._certificate: Certificate | None = None
        self.introduction: Mapping[str, str] = {}
        self.step_s = STEP_S
        """So long may each step take."""

    async def run(self, user: str, password: str) -> Hub:
        """Raises _Stop."""
        await self._look_up()
        line = await self._connect()
        try:
            if self._tls_first:
                await self._handshake(line)
            if self._web is not None:
                await self._upgrade(line, self._web)
            info = await self._info(line)
            wanted = self._tls_wanted or bool(info.get("tls_required"))
            if wanted and not self._tls_first and self._web is None:
                await self._handshake(line)
            info |= await self._log_in(line, info, user, password, tls=wanted)
        except BaseException:
            with trio.CancelScope(shield=True):
                await line.close()
            raise
        return Hub(self.place, self._remote, info, Session(line, leaf=True), self._certificate)

    def _stop(self, check: Check, text: str, *, owner: str = "", operator: str = "") -> _Stop:
        return _Stop(fault(check, self.place, text, owner=owner, operator=operator))

    async def _look_up(self) -> None:
        if self._remote.proxy is not None:
            return  # the proxy does it
        try:
            with trio.fail_after(self.step_s):
                await trio.socket.getaddrinfo(self._host, self._port, type=trio.socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            why = dial_error(error) if isinstance(error, OSError) else str(error)
            raise self._stop(
                Check.HUB_ADDRESS,
                f"the name {quoted(self._host)} has no address: {why}",
                owner="correct the hub's name in leafnodes.remotes, or this box's DNS (/etc/resolv.conf)",
            ) from None
        except trio.TooSlowError:
            raise self._stop(
                Check.HUB_ADDRESS,
                f"looking up the name {quoted(self._host)} took more than {self.step_s:.0f} s",
                owner="the DNS servers of this box do not answer: look at /etc/resolv.conf and the network",
            ) from None

    async def _connect(self) -> Line:
        try:
            return Line(
                await connect(self._host, self._port, proxy_of(self._remote), Patience(self.step_s, self.step_s))
            )
        except NoTunnel as error:
            raise self._stop(
                Check.HUB_PORT, str(error), owner="look at this remote's proxy block, and ask who runs the proxy"
            ) from None
        except ConnectionRefusedError:
            why = "nobody listens there: connection refused"
        except OSError as error:
            why = dial_error(error)
            if "refused" in why.lower():
                why = "nobody listens there: connection refused"
        except trio.TooSlowError:
            why = f"no answer within {self.step_s:.0f} s: something between drops the packets, or the machine is off"
        kind, block = ("leaf port", "leafnodes") if self._web is None else ("WebSocket port", "websocket")
        means = f" (a url without a port means {DEFAULT_PORT})" if self._web is not None else ""
        raise self._stop(
            Check.HUB_PORT,
            why,
            owner=f"is {self._host}:{self._port} the hub's {kind}{means}? Does the network of this box let it through?",
            operator=f"does the hub run with {block} {{ listen: 0.0.0.0:{self._port} }}, and is the firewall open?",
        )

    async def _upgrade(self, line: Line, path: str) -> None:
        asked = ask(self._host, self._port, path, compression=False, no_masking=False)
        try:
            with trio.fail_after(self.step_s):
                head = await line.ask(asked.head)
        except trio.TooSlowError:
            raise self._unanswered(f" within {self.step_s:.0f} s") from None
        except TlsEnd as error:
            raise self._no_tls(str(error)) from None
        except End as error:
            # A server that speaks first may end it before that was read.
            head = b"" if self._tls_first else await _first_line(self._host, self._port, proxy_of(self._remote))
            if not head:
                raise self._unanswered(f": {error}", " Its log may say more") from None
        advice = hub_web.judge(asked, head, tls=self._tls_first)
        if advice is not None:
            raise self._stop(Check.HUB_WEBSOCKET, advice.text, owner=advice.owner, operator=advice.operator)
        line.framed()
        self._report(well(Check.HUB_WEBSOCKET, self.place, f"WebSocket at {path.rstrip('/')}/leafnode"))

    def _unanswered(self, how: str, more: str = "") -> _Stop:
        return self._stop(
            Check.HUB_WEBSOCKET,
            f"the WebSocket request is not answered{how}",
            owner="" if self._tls_first else _WSS,
            operator=f"does websocket of the hub listen at this port?{more}",
        )

    async def _info(self, line: Line) -> dict[str, Any]:
        web = self._web is not None
        try:
            with trio.fail_after(self.step_s):
                word, rest = verb(await line.line())
                info = info_of(rest) if word == "INFO" else None
        except trio.TooSlowError:
            raise self._stop(
                Check.HUB_PROTOCOL,
                f"it takes the connection and says nothing within {self.step_s:.0f} s",
                owner=self._another_way(),
                operator="what listens there may hang, or be something else",
            ) from None
        except End as error:
            raise self._stop(
                Check.HUB_PROTOCOL,
                f"it ends the conversation before it begins: {error}",
                owner=self._another_way(),
                operator="does the hub take leaves? Beside websocket it needs leafnodes { port: 7422 }"
                if web
                else "look at the hub's log: it may have too many connections, or expect a proxy's header",
            ) from None
        if info is None:
            raise self._stop(
                Check.HUB_PROTOCOL,
                "what answers there is no NATS server",
                owner=f"the leaf port of a hub is {DEFAULT_PORT} by default: correct the remote's url",
            )
        if not info.get("client_id") or not (info.get("leafnode_urls") or info.get("info_on_connect")):
            if web:
                raise self._stop(
                    Check.HUB_PROTOCOL,
                    "the hub takes this box for a client: the path of the request has changed on its way",
                    operator="a proxy before the hub has to leave the end of the path, /leafnode, as it is",
                )
            kind = "its port for clients" if info.get("client_id") else "a port for other servers"
            raise self._stop(
                Check.HUB_PROTOCOL,
                f"a NATS server answers, and this is {kind}: leaves are not served there",
                owner=f"name the hub's leaf port in the remote's url; by default it is {DEFAULT_PORT}",
                operator="if the hub has no leaf port yet: leafnodes { listen: 0.0.0.0:7422 }",
            )
        return info

    def _another_way(self) -> str:
        """To begin with a hub that does not say INFO at once."""
        if self._tls_first or self._web is not None:
            return ""
        return (
            "if the hub wants TLS before all else, tls { handshake_first: true } is missing in the remote; "
            "if it takes leaves over WebSocket there: write ws:// or wss:// in the remote's url"
        )

    async def _handshake(self, line: Line) -> None:
        name = certificate_name(self._host, self._remote.urls)
        try:
            with trio.fail_after(self.step_s):
                der = await line.secure(context_of(self._remote.tls), name)
        except trio.TooSlowError:
            raise self._stop(
                Check.HUB_TLS, f"no TLS handshake within {self.step_s:.0f} s", operator="does this port speak TLS?"
            ) from None
        except (ssl.SSLError, OSError) as error:
            raise await self._tls_failed(error, name) from None
        try:
            self._certificate = read_certificate(der)
        except Malformed:
            self._certificate = None
        self._report(well(Check.HUB_TLS, self.place, f"TLS, with a certificate for {quoted(name)} that is trusted"))

    async def _tls_failed(self, error: Exception, name: str) -> _Stop:
        code = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else 0
        shown = None
        if code:
            shown = await _certificate_shown(self._host, self._port, name, self._remote, at_once=self._tls_first)
        names = ", ".join(map(quoted, shown.dns_names[:8])) if shown and shown.dns_names else "other names"
        if code in _NAMES:
            return self._stop(
                Check.HUB_TLS,
                f"the hub's certificate is made out to {names}, and the box calls it {quoted(name)}",
                owner="name the hub in the remote's url as its certificate does",
                operator=f"or have a certificate made that has {quoted(name)} among its names",
            )
        if code == _EXPIRED:
            return self._stop(
                Check.HUB_TLS,
                "the hub's certificate has expired, by this box's clock",
                owner="is this box's clock right?",
                operator="renew the hub's certificate",
            )
        if code == _NOT_YET:
            return self._stop(
                Check.HUB_TLS,
                "the hub's certificate is not valid yet, by this box's clock",
                owner="is this box's clock right? It may be far behind",
            )
        if code:
            return self._stop(
                Check.HUB_TLS,
                f"the hub's certificate is not trusted: {getattr(error, 'verify_message', '')}",
                owner="name the authority that signed it in the remote: tls { ca_file: FILE }",
                operator="does the hub send the certificates between its own and the root (cert_file holds both)?",
            )
        why = (error.reason if isinstance(error, ssl.SSLError) else None) or str(error)
        return self._no_tls(why.lower().replace("_", " "))

    def _no_tls(self, why: str) -> _Stop:
        none_there = "does the remote ask for TLS where the hub has none?"
        if self._web is not None:
            none_there = "if the hub's websocket has no TLS: write ws:// in place of wss:// in the remote's url."
        return self._stop(
            Check.HUB_TLS,
            f"the TLS handshake failed: {why}",
            owner=f"{none_there} Does the hub want a certificate of this box?",
            operator="the hub's log names the reason",
        )

    async def _log_in(
        self, line: Line, info: Mapping[str, Any], user: str, password: str, *, tls: bool
    ) -> dict[str, Any]:
        try:
            login = _login(self._remote, str(info.get("nonce") or ""), user, password)
        except ConfigError as error:
            # What is wrong with an nkey is not repeated: it may be the seed itself.
            seed = bool(self._remote.nkey) and not self._remote.credentials
            why = "the remote's nkey is neither a seed nor a file that holds one" if seed else str(error)
            raise self._stop(Check.HUB_LOGIN, why, owner="make the file readable, or have it made anew") from None
        name = f"leafd-doctor-{token()}"
        connect = {
            "version": VERSION,
            "server_id": name,
            "name": name,
            "cluster": name,
            "headers": True,
            "jetstream": False,
            "remote_account": name,
            "protocol": PROTOCOL,
            "compress_mode": "not supported",
        }
        if tls:
            connect["tls_required"] = True
        try:
            with trio.fail_after(self.step_s):
                await line.say(
                    b"CONNECT " + json.dumps(connect | login | dict(self.introduction)).encode() + b"\r\nPING\r\n"
                )
                return await self._welcome(line, confirmed=bool(info.get("info_on_connect")))
        except trio.TooSlowError:
            raise self._stop(
                Check.HUB_LOGIN,
                f"the hub does not answer the login within {self.step_s:.0f} s",
                operator="look at the hub's log; if a service judges logins (auth_callout), does it run?",
            ) from None

    async def _welcome(self, line: Line, *, confirmed: bool) -> dict[str, Any]:
        """The hub's INFO about the account that the connection was put in."""
        said = ""
        while True:
            try:
                word, rest = verb(await line.line())
            except TlsEnd as error:
                raise self._no_tls(str(error)) from None
            except End as error:
                raise self._refused(said or str(error)) from None
            if word == "-ERR":
                said = rest.strip("'")
            elif word == "INFO":
                found = info_of(rest)
                if found.get("connect_info"):
                    return found
            elif word == "PONG" and not confirmed:
                return {}

    def _refused(self, why: str) -> _Stop:
        low = why.lower()
        if "authorization" in low or "authentication" in low:
            return self._stop(
                Check.HUB_LOGIN,
                f"the hub refuses the login: {quoted(why)}",
                owner=_login_advice(self._remote),
                operator="is this user there, with this password or key, and may it come as a leaf"
                + (" over WebSocket (LEAFNODE_WS in allowed_connection_types)?" if self._web is not None else "?"),
            )
        if "maximum" in low or "exceeded" in low:
            return _Stop(
                unproven(
                    Check.HUB_LOGIN,
                    self.place,
                    f"the account at the hub has no place for a second link, which the probes need: {quoted(why)}",
                    operator="one more in max_leafnodes of that account would let the doctor in",
                )
            )
        return self._stop(
            Check.HUB_LOGIN, f"the hub ends the login: {quoted(why)}", operator="the hub's log names the reason"
        )


def _login_advice(remote: LeafRemote) -> str:
    if remote.credentials:
        return f"have new credentials made by the hub's operator for {remote.credentials}; has the JWT in it expired?"
    if remote.nkey:
        return "is the public key of this box's nkey known at the hub? `leafd init` prints it"
    return "compare user and password in the remote's url with what the hub's operator has entered"


def _login(remote: LeafRemote, nonce: str, user: str, password: str) -> dict[str, str]:
    """Raises ConfigError."""
    if remote.credentials:
        return signer_from_credentials(remote.credentials)(nonce)
    if remote.nkey:
        return signer_from_seed(remote.nkey)(nonce)
    if user and not password:
        return {"user": user, "auth_token": user}
    return {"user": user, "pass": password} if user else {}


def context_of(tls: Tls | None, *, check: bool = True) -> ssl.SSLContext:
    """Whom to trust, and the certificate to show. check: false only to look at a certificate, never to log in."""
    material = tls.material if tls is not None else None
    trusted = material.ca.decode("ascii", "replace") if material is not None and material.ca else None
    context = ssl.create_default_context(cadata=trusted)
    if material is not None and material.pairs:
        with as_file(material.pairs[0].chain) as chain, as_file(bytes(material.pairs[0].key)) as key:
            context.load_cert_chain(chain, key)
    if not check or (tls is not None and tls.insecure):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def _certificate_shown(
    host: str, port: int, name: str, remote: LeafRemote, *, at_once: bool
) -> Certificate | None:
    """Whatever certificate is shown there; nothing is sent to its owner. at_once: before anything is said."""
    try:
        async with _glance(host, port, proxy_of(remote)) as line:
            if not at_once:
                await line.line()
            return read_certificate(await line.secure(context_of(remote.tls, check=False), name))
    except (OSError, NoTunnel, End, Malformed, trio.TooSlowError):
        return None


async def _first_line(host: str, port: int, proxy: Proxy | None) -> bytes:
    """The first line that the hub sends by itself."""
    try:
        async with _glance(host, port, proxy) as line:
            return (await line.line()).encode()
    except (OSError, NoTunnel, End, trio.TooSlowError):
        return b""


@contextlib.asynccontextmanager
async def _glance(host: str, port: int, proxy: Proxy | None) -> AsyncIterator[Line]:
    """A connection more, for a moment. Raises OSError, NoTunnel, trio.TooSlowError."""
    with trio.fail_after(STEP_S):
        line = Line(await connect(host, port, proxy, Patience(STEP_S, STEP_S)))
        try:
            yield line
        finally:
            with trio.CancelScope(shield=True):
                await line.close()


def places(remotes: Iterable[LeafRemote]) -> list[tuple[LeafRemote, str]]:
    """Each address of each remote."""
    return [(remote, url) for remote in remotes for url in remote.urls]
