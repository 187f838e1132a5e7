"""Can a training be resumed from a checkpoint: its optimiser's state against its weights and past."""
