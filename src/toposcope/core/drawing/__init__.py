"""Drawing on matplotlib axes: the style, and the figures that need arrays only."""
