"""Login rules: the user behind a connection, and the user's rights. Pure: CONNECT, nonce and policy in, verdict out; no
socket, no clock, no plane."""
