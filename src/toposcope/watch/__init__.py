"""Follow a growing run: find its checkpoints, measure them, and report when something breaks."""
