"""The configuration's models: one frozen Section a block, one field a key, and everything said about it in that place."""
