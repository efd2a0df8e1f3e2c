"""Rules for configurations of streams, consumers, copies and accounts: which JetStream accepts, the defaults, and the
changes that are allowed.

Pure: a rule sees configurations and the catalogue, and no plane. Nothing is imported here. Not here: who
asks and what is answered (jetstream/endpoints/), subjects alone (jetstream/subjects.py).
"""
