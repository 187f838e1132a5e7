"""The formats of checkpoint files: a reader each, and the table of formats."""
