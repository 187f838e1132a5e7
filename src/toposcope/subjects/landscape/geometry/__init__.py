"""The loss as a surface over the parameters: its directions, its curvature, and its values on a grid."""
