"""Links to other servers: leaf handshakes, dialling, and the pulling side of mirrors and sources."""
