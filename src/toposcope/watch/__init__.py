"""Follow a run that is still growing: find its checkpoints, measure them, say when something breaks."""
