"""Tools that tests of a running server share: waiting for something, reports, official clients, bare ends of links.

Not here: starting servers (tests/servers.py), certificates, JWTs, what one test alone needs.
"""
