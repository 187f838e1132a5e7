"""Statistics of alarms on growing series: pure functions with stated error rates."""
