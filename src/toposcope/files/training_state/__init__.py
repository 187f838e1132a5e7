"""What a checkpoint keeps beside its weights to go on from: moments, steps, schedule, RNG, data position."""
