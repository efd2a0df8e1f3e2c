"""Monitoring: the server's reports over HTTP on the monitoring port and over $SYS in the system account. Reads only."""
