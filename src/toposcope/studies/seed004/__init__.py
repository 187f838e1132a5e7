"""The weight-space paper again: its runs, claims and tables."""
