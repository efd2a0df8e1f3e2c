"""A client of a NATS server without a socket: bytes in, messages and lines out, and the bytes of what a client says.

incoming    bytes that came, cut into lines and messages; the limits are arguments
outgoing    lines that a client or a leaf says

The owner of a socket drives it: `leafd.doctor.wire` with trio, `leafd_spark.wire` blocking. The Spark side is handed
out apart from the daemon (packaging/spark-wheel), and this with it: only Python's own library is used here.

Not here: sockets, TLS, WebSocket, logins, and the daemon's own links.
"""

from leafd.wire_client.incoming import (
    STATUS_LINE,
    Incoming,
    Limits,
    Line,
    Malformed,
    Message,
    header_of,
    info_of,
    status_of,
)
from leafd.wire_client.outgoing import frame_connect, frame_publish, frame_subscribe

__all__ = [
    "STATUS_LINE",
    "Incoming",
    "Limits",
    "Line",
    "Malformed",
    "Message",
    "frame_connect",
    "frame_publish",
    "frame_subscribe",
    "header_of",
    "info_of",
    "status_of",
]
