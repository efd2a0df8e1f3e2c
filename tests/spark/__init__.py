"""Proofs of the Spark source that take minutes: each a command of its own, none a part of tests/run."""
