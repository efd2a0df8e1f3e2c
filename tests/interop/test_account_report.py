"""Reports about accounts, on leafd and on the reference: what they map, export and import."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests import servers
from tests.rig.official import connect
from tests.rig.waiting import until

CONFIGURATION = """
listen: "127.0.0.1:{port}"
accounts {
  SYS { users: [{user: sys, password: sys}] }
  A { users: [{user: a, password: a}]
      mappings { "map.from": "map.to", "w.*": [{destination: "x.$1", weight: 40%}, {destination: "y.$1", weight: 60%}] }
      exports: [{stream: "st.>"}, {stream: "priv.>", accounts: [B]}, {service: "tok.*", account_token_position: 2},
                {service: "sv.one", accounts: [B], response_type: stream}, {service: "sv.two", allow_trace: true},
                {service: "lat.all", latency: "told"}, {service: "lat.some", latency: {sampling: 5%, subject: told}},
                {service: "lat.headers", latency: {sampling: headers, subject: told}}]
      imports: [{service: {account: B, subject: "svc.*.>"}, to: "ask.*.>"}, {service: {account: B, subject: "svc.x"}}] }
  B { users: [{user: b, password: b}]
      exports: [{service: "svc.>", response_type: chunked}]
      imports: [{stream: {account: A, subject: "st.>"}, prefix: "fromA"}, {service: {account: A, subject: "tok.B"}},
                {stream: {account: A, subject: "priv.a"}, to: "pa"},
                {service: {account: A, subject: "sv.two"}, to: "two"},
                {service: {account: A, subject: "lat.some"}, share: true},
                {service: {account: A, subject: "lat.headers"}}] }
}
system_account: SYS
"""


async def details(server: servers.Server) -> dict[str, Any]:
    """What both requests say of each account, without the server's own services, in the order of the subjects."""
    client = await connect(server, "sys")

    async def alone() -> bool:
        """Whether the connection by which the rig saw the server begin, in $G, is counted no longer."""
        answer = await client.request("$SYS.REQ.ACCOUNT.$G.INFO", b"", timeout=5)
        return bool(json.loads(answer.data)["data"]["client_connections"] == 0)

    await until(alone)
    found = {}
    for name in ("A", "B", "$G"):
        options = json.dumps({"account": name}).encode()
        answers = [
            json.loads((await client.request("$SYS.REQ.SERVER.PING.ACCOUNTZ", options, timeout=5)).data)["data"][
                "account_detail"
            ],
            json.loads((await client.request(f"$SYS.REQ.ACCOUNT.{name}.INFO", b"", timeout=5)).data)["data"],
        ]
        for answer in answers:
            for kind in ("exports", "imports"):
                rows = [row for row in answer.get(kind, ()) if row.get("account") != "SYS"]
                answer[kind] = sorted(rows, key=lambda row: (row["type"], row["subject"]))
        kept = ("account_name", "mappings", "exports", "imports", "name_tag", "client_connections")
        found[name] = [{member: answer.get(member) for member in kept} for answer in answers]
    await client.close()
    return found


def test_accounts_in_detail() -> None:
    """accountz and ACCOUNT.INFO list the mappings, exports and imports of an account as the reference does, but for the
    services of the server itself."""
    reports = []
    for kind in servers.KINDS:
        with servers.running(kind, CONFIGURATION) as server:
            reports.append(asyncio.run(details(server)))
    assert reports[1] == reports[0]
