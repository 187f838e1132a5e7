"""Statistics of alarms on series that are still growing; pure, and every rate is stated."""
