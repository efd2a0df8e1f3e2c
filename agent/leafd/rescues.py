"""The files of the store's directory by which `leafd cluster` asks the next start for a rescue.

Not here: who writes them (cli/cluster_words.py), what is done (daemon/rescue.py, daemon/stream_rescue.py).
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "rescue-group"
STREAMS: Final = "rescue-streams"
