"""Files one at a time: bytes, names, configurations, event files, and the formats of checkpoints."""
