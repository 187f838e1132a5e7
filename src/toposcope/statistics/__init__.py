"""Pure functions of arrays: trends, bends, alarms, correlations."""
