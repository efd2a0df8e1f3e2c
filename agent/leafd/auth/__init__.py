"""Who a connection is and what it may do. Pure: CONNECT, nonce and policy in, verdict out; no socket, no clock, no
plane."""
