"""The tests: one folder a kind of test, and what they share."""
