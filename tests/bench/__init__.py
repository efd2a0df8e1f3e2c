"""Measures leafd against nats-server 2.15.1, alternately, in one run. `tests/bench/run` is the command."""
