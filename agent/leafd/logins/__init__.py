"""Connections from their first byte to a login: clients, leaf links and visitors of the WebSocket listener, the TLS
that they get, their time to log in, the checks that take long (passwords, a service), and their users afterwards.

Nothing is imported here. Not here: who may log in (auth/), what a leaf link does then (links/), the
server that all of this belongs to (daemon/).
"""
