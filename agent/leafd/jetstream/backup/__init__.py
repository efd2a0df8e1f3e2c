"""Streams as archives: written for a snapshot, read for a restore, in today's form and in that before 2.15.

Nothing is imported here. Not here: messages as entries of an archive (native/jetstream).
"""
