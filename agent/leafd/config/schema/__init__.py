"""The models of the configuration: one frozen Section a block, one field a key, with all that is said about it."""
