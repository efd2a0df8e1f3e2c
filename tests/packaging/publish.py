"""A client small enough to run anywhere: publishes to a stream and reads the acknowledgements, or counts what is there.

publish.py publish COUNT    makes stream BOX where it is missing, publishes COUNT messages, prints the last sequence
publish.py max_payload      prints what INFO says of it
publish.py count            prints how many messages the stream holds

It talks to port 4222 (LEAFD_PORT: another), as user "box" with that password where one is asked for.
"""

from __future__ import annotations

import json
import os
import socket
import sys


class Client:
    """One connection to the server on this machine."""

    def __init__(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", int(os.environ.get("LEAFD_PORT", "4222"))), 60)
        self.file = self.socket.makefile("rwb")
        self.info = dict(json.loads(self.file.readline().removeprefix(b"INFO ")))
        said = {"verbose": False, "headers": True, "no_responders": True, "user": "box", "pass": "box"}
        self.file.write(b"CONNECT %s\r\nSUB reply 1\r\n" % json.dumps(said).encode())

    def request(self, subject: str, body: bytes) -> dict[str, object]:
        self.file.write(f"PUB {subject} reply {len(body)}\r\n".encode() + body + b"\r\n")
        self.file.flush()
        while True:
            line = self.file.readline()
            if not line or line.startswith((b"HMSG", b"-ERR")):
                sys.exit(f"{subject}: {line!r}")
            if line.startswith(b"MSG"):
                return dict(json.loads(self.file.read(int(line.split()[-1]))))


def main() -> None:
    client = Client()
    if sys.argv[1] == "publish":
        client.request("$JS.API.STREAM.CREATE.BOX", b'{"name":"BOX","subjects":["box.>"]}')
        last: object = None
        for number in range(int(sys.argv[2])):
            last = client.request("box.value", b"value %d" % number)["seq"]
        print(last)
    elif sys.argv[1] == "max_payload":
        print(client.info["max_payload"])
    else:
        state = client.request("$JS.API.STREAM.INFO.BOX", b"")["state"]
        assert isinstance(state, dict)
        print(state["messages"])


if __name__ == "__main__":
    main()
