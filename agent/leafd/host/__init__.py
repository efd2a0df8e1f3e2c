"""The machine that the daemon runs on: log, journal and syslog, listening sockets, signals, systemd, descriptors,
memory, and how long the control thread is busy.

Nothing is imported here: `leafd --signal` and the checks of the command line must not load trio. Not here: the
messages' protocols, logins, the server (daemon/).
"""
