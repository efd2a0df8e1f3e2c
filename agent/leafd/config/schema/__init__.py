"""The configuration's models: one frozen pydantic model a block, one field a key, and everything said about it in
that place."""
