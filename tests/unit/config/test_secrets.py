"""What a configuration's errors and warnings repeat of it: never a secret, wherever the mistake beside it is.

They go to the log, to the terminal of `leafd -t`, and from there into tickets.
"""

from __future__ import annotations

import pytest
from leafd.auth.nkeys import PREFIX_USER, new_seed
from leafd.config.bind import load_text
from leafd.errors import ConfigError

WORD = "Wh1sper"
NUMBER = "7318455"
SEED = new_seed(PREFIX_USER)
SECRETS = (WORD, NUMBER, SEED)


@pytest.mark.parametrize(
    "text",
    [
        f"authorization {{ user: a, password: {NUMBER} }}",
        f"authorization {{ token: {NUMBER} }}",
        f"authorization {{ token: [{WORD}] }}",
        f"authorization {{ users: {{user: a, password: {WORD}}} }}",
        f"authorization {{ users: [[{{user: a, password: {WORD}}}]] }}",
        f"authorization {{ users: [{WORD}] }}",
        f"authorization {{ users: [{{user: a, password: {{b: {WORD}}}}}] }}",
        f"authorization {{ users: [{{user: a, password: {NUMBER}}}] }}",
        f"authorization {{ users: [{{user: {{password: {WORD}}}}}] }}",
        f"authorization {{ user: a, pass: {WORD}, timeout: {{password: {WORD}}} }}",
        f"authorization: [{{user: a, password: {WORD}}}]",
        f"accounts {{ A: [{{user: a, password: {WORD}}}] }}",
        f"accounts {{ A {{ users: {{user: a, password: {WORD}}} }} }}",
        f"accounts: [{{A: {{users: [{{user: a, password: {WORD}}}]}}}}]",
        f"port: {{password: {WORD}}}",
        f"server_name: {{password: {WORD}}}",
        f"listen: {{password: {WORD}}}",
        f"max_payload: [{WORD}]\nmax_pending: {{password: {WORD}}}",
        f"debug: {{password: {WORD}}}",
        f"ping_interval: {{password: {WORD}}}",
        f"leafnodes {{ authorization {{ user: a, password: {NUMBER} }} }}",
        f"leafnodes {{ authorization {{ users: [{{user: a, password: {NUMBER}}}] }} }}",
        f"leafnodes {{ authorization {{ users: {{user: a, password: {WORD}}} }} }}",
        f'leafnodes {{ remotes: [ {{ url: "nats://a:{WORD}@hub:70000" }} ] }}',
        f'leafnodes {{ remotes: [ {{ url: "nats://a:{WORD}@hub..org:7422" }} ] }}',
        f'leafnodes {{ remotes: [ {{ url: "http://a:{WORD}@hub:7422" }} ] }}',
        f'leafnodes {{ remotes: [ {{ url: "nats://a:{WORD}@" }} ] }}',
        f'leafnodes {{ remotes: [ {{ url: "a:{WORD}@[hub" }} ] }}',
        f'leafnodes {{ remotes: [ {{ urls: ["nats://a:{WORD}@hub", "wss://a:{WORD}@hub"] }} ] }}',
        f'leafnodes {{ remotes: {{ url: "nats://a:{WORD}@hub:7422" }} }}',
        f'leafnodes {{ remotes: [ "nats://a:{WORD}@hub:7422" ] }}',
        f'leafnodes {{ remotes: [ {{ url: {{ x: "nats://a:{WORD}@hub:7422" }} }} ] }}',
        f'leafnodes {{ remotes: [ {{ url: "nats://hub", nkey: [{SEED}] }} ] }}',
        f'leafnodes {{ remotes: [ {{ url: "nats://hub", nkey: {SEED[:-1]} }} ] }}',
        f"accounts {{ A {{ users: [{{nkey: {SEED}}}] }} }}",
        f"leafnodes {{ authorization {{ nkey: {SEED} }} }}",
        f"websocket {{ port: 1, no_tls: true, authorization {{ user: a, password: {NUMBER} }} }}",
        f"websocket {{ port: 1, no_tls: true, authorization {{ token: {NUMBER} }} }}",
        f"websocket {{ port: 1, no_tls: true, headers: {{password: [{WORD}]}} }}",
        f"jetstream {{ key: {NUMBER} }}",
        f"jetstream {{ key: {{a: {WORD}}}, cipher: aes }}",
        f"jetstream {{ prev_key: {WORD}, cipher: aes }}",
        f"jetstream: [{{key: {WORD}}}]",
        f'resolver: "URL(ftp://a:{WORD}@there/)"',
        f'resolver: "UR(http://a:{WORD}@there/)"',
        f'resolver {{ type: "http://a:{WORD}@there/" }}',
        f"mappings: {{ a: {{password: {WORD}}} }}",
        f"tls {{ cert_file: {{password: {WORD}}} }}",
        f"tls: [{WORD}]",
        f"cluster {{ authorization {{ user: a, password: {WORD} }} }}",
        f"mqtt {{ authorization {{ user: a, password: {WORD} }} }}",
        f'gateway {{ gateways: [{{url: "nats://a:{WORD}@there"}}] }}',
        f'authorization {{ user: a, password: "{WORD} }}',
        f'authorization {{ user: a, password: "{WORD}" x }}',
        f"authorization {{ user: a, password: {WORD} {WORD} }}",
        f"authorization {{ user: a, password: $NOBODY_SET_THIS_{NUMBER[:0]} }}",
        f"secret: {WORD}\nauthorization {{ user: a, passwrod: $secret }}",
        f"secret: [{WORD}]\nauthorization {{ user: a, password: $secret }}",
    ],
)
def test_what_is_wrong_is_said_without_the_secret(text: str) -> None:
    """A complaint names the key and what is expected there, and shows no secret and no block that may hold one."""
    try:
        said = "\n".join(load_text(text).warnings)
    except ConfigError as error:
        said = str(error)

    assert [] == [secret for secret in SECRETS if secret[:7] in said], said


def test_records_that_are_shown_hide_secrets() -> None:
    """Whatever object ends in a line of the log, by whatever mistake: its passwords do not."""
    text = f"""
    authorization {{ user: a, password: {WORD} }}
    leafnodes {{ remotes: [ {{ url: "nats://a:{WORD}@hub:7422", nkey: {SEED} }} ] }}
    jetstream {{ key: {WORD}, cipher: aes }}
    """
    assert [] == [secret for secret in (WORD, SEED) if secret in repr(load_text(text).server)]
