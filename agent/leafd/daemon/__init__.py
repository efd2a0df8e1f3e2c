"""The running daemon: the nursery tree, listeners, clients' logins, signals, systemd. The only room that knows all
others.

Nothing is imported here: `leafd --signal` and the checks of the command line must not load trio.
"""
