"""Whether a loss curve is sound: level, rises, plateaus, swings, overfitting."""
