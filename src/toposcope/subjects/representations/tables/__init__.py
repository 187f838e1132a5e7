"""The result tables of representations."""
