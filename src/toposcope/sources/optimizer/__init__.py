"""Can a training be resumed from a checkpoint: its optimiser's state held against its weights and the past."""
