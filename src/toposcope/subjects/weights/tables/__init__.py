"""The result tables of the weights."""
