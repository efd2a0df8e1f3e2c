"""Which configurations JetStream takes, what is filled in, and what may change: streams, consumers, copies, accounts.

Pure: a rule sees configurations and the catalogue, and no plane. Nothing is imported here. What does not live here: who
asks and what is answered (jetstream/endpoints/), subjects alone (jetstream/subjects.py).
"""
