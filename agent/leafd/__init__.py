"""leafd: a broker daemon for edge boxes that speaks the NATS protocols. Nothing is imported here, so that -t and
--help stay quick."""
