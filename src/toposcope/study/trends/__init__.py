"""Tables of the relation of a feature to its target beyond their common trend."""
