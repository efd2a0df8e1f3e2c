"""The functions under @endpoint, but for those of backups: one file a subject of the API, and what their answers share.

Nothing is imported here. Not here: what every request goes through (jetstream/registry.py), rules
(jetstream/rules/).
"""
