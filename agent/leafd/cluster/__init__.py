"""Servers that keep streams together: how they become a group.

Pure machines: messages and the time come in, messages and what has to be on the disk go out. Not here: routes and
gateways (links/), agreement on a log (native/raft), who carries the messages.
"""
