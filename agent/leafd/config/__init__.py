"""The configuration: text -> tokens (lexer) -> tree (include, variables) -> frozen models (schema). No socket, no
clock, no plane."""
