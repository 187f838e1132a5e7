"""The state of the optimiser: its moments as a subject."""
