"""Arrays in, numbers out: trends, bends, alarms, correlations."""
