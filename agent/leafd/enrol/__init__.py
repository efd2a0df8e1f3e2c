"""Enrolment: a box that nobody has entered at the hub brings a token and its own key, and is known from then on.

    at the hub    `leafd enrol token` --socket--> daemon: a token, of which only a hash is kept
    at the box    `leafd init leaf --enrol URL TOKEN`: makes its nkey, logs in once, writes its configuration

    box                                     hub
     |  <------------- INFO with a nonce ----|   the leaf listener, over TLS or WebSocket where that is configured
     |-- CONNECT { nkey, signature of the -->|   the nkey is known: a login as any other, the token is not looked at
     |   nonce, token, name }                |   else: token, name and signature are judged (register.py)
     |                                       |   one record is written and synced (journal.py)
     |  <------------- INFO: link is up -----|   and only then the box is let in

The login is the enrolment. So it goes wherever a leaf link goes (through NAT, proxies, TLS), there is no other port to
guard, and each end may lose its power at any moment: the box has its key before it says anything, the hub's record is
one line of one file, and a box that comes again with the same key is known, or is judged again with the same token.

The holders: the box has its seed, which never leaves it; the hub public keys and hashes of tokens; the person who sets
up a box a token, which is of no use once a box has used it. A replayed CONNECT has the wrong nonce.

    token.py    what a token looks like             register.py      who is enrolled, and who may be
    names.py    names of boxes, and patterns        journal.py   the file of it
    people.py   boxes as users of the leaf listener port.py      the socket that commands speak to

A configuration without an enrol block loads none of it. Not here: links and logins (daemon/boxes.py),
the box's side (cli/enrol.py), streams that collect from boxes (declared/boxes.py).
"""
