"""`leafd doctor`: proves each configured flow end to end, and says which side must change what.

    findings.py    what can be found, each kind with a name that packaging/doc/doctor.md explains
    examine.py     the order of an examination, and its bounds in time
    wire.py        one connection to a server, as a client or as a leaf
    frames.py      WebSocket frames
    hub.py         reaches a hub as the daemon does, step by step
    hub_web.py     what the answer to a WebSocket request means
    local.py       talks to the daemon as a client of it
    ask.py         a request and what became of it; what the hub lets this box do
    links.py       what the daemon says of its links
    flows.py       probes through the link, up and down; API calls across domains
    rows.py        streams and their mirrors and sources, as both sides report them
    copies.py      is each origin there, is it the same, does the copy catch up?
    streams.py     what streams do to each other, and their limits
    machine.py     disk, memory, clock, what expires, the service

An examination changes nothing: probes go to subjects that no stream captures, and are stored nowhere.
Not here: the command and its tables (cli/), the daemon, which is asked over the same ports as by any other program.
"""
