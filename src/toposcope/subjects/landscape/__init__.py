"""The loss over the parameters: directions, curvature, sampled surfaces and paths."""
