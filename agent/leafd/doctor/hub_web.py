"""The answers to the HTTP request that begins a link over WebSocket, and their meaning: pure. Not here:
the request itself (links/web.py), who sends it (hub.py), frames (frames.py)."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from leafd.links.web import Asked, agreed
from leafd.quoting import quoted
from leafd.records import dataclass
from leafd.web_head import NoHttp, read_head

SCHEMES: Final = ("ws", "wss")


@dataclass(frozen=True, slots=True)
class Advice:
    """Why it is no WebSocket of a hub, and who has to change what."""

    text: str
    owner: str = ""
    operator: str = ""


def is_web(url: str) -> bool:
    """Whether that address of a hub is dialled over WebSocket."""
    return urlsplit(url).scheme in SCHEMES


def judge(asked: Asked, head: bytes, *, tls: bool) -> Advice | None:
    """The advice about the answer; None: WebSocket is spoken from here on. tls: it came over TLS."""
    if head.startswith((b"INFO ", b"-ERR ")):
        return Advice(
            "a NATS server answers, and this is none of its WebSocket ports",
            owner="name the hub's WebSocket port in the remote's url, or write nats-leaf:// in place of ws:// there",
        )
    if not head.startswith(b"HTTP/"):
        return Advice(
            "what answers there does not speak HTTP", owner="correct the remote's url: the port of the hub's websocket"
        )
    try:
        answer = read_head(head)
        if answer.first[1] == "101":
            agreed(asked, head)
            return None
    except NoHttp as error:
        return Advice(
            f"the answer to the WebSocket request is wrong: {error}",
            operator="something between box and hub answers in the hub's place: a proxy or a cache",
        )
    status, said = answer.first[1], quoted(" ".join(answer.first[1:]))
    return _refused(status, said, asked.head.split(b" ", 2)[1].decode(), answer.header("location"), tls=tls)


def _refused(status: str, said: str, path: str, location: str, *, tls: bool) -> Advice:
    pass_on = f"a proxy before the hub has to pass {path} on as it is, with the headers Upgrade and Connection"
    if status.startswith("3"):
        return Advice(
            f"the WebSocket request for {path} is answered with {said}: it is to go to {quoted(location)}",
            owner="write the address where the hub really is into the remote's url: a link follows no redirection",
            operator=f"or have no redirection there: {pass_on}",
        )
    if status == "404":
        return Advice(
            f"there is no {path}: the WebSocket request is answered with {said}",
            owner="write the path of the proxy before the hub into the remote's url; without a proxy it needs none",
            operator=f"does the hub take leaves (leafnodes {{ port: 7422 }}) beside websocket? And {pass_on}",
        )
    if status in ("401", "403", "407"):
        return Advice(
            f"the WebSocket request for {path} is refused: {said}",
            operator="a proxy before the hub asks for a login of its own, or does not let this box through: "
            "a link cannot give it one",
        )
    if status.startswith("5"):
        return Advice(
            f"the WebSocket request for {path} is answered with {said}",
            operator="a proxy before the hub does not reach it: does the hub run, with websocket at the port that the "
            "proxy asks?",
        )
    if status == "400" and not tls:
        return Advice(
            f"the WebSocket request for {path} is answered with {said}",
            owner="if the hub's websocket has TLS: write wss:// in place of ws:// in the remote's url",
            operator=pass_on,
        )
    return Advice(f"the WebSocket request for {path} is answered with {said}", operator=pass_on)
