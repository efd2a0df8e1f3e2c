"""The running daemon: one server put together of the rooms, from its start over reloads to its end. The only room that
knows all others.

Nothing is imported here: the checks of the command line must not load trio.
"""
