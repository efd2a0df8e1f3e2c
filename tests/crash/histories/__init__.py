"""Three servers that keep a stream together, under faults, judged by what their clients saw (`__main__.py`)."""
