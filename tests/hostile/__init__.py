"""Input that nobody sends who means well, and the proof that it costs only whoever sends it."""
