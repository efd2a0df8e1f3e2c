"""What the server tells about itself: over HTTP on the monitoring port and over $SYS in the system account. Reads
only."""
