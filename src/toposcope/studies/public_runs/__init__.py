"""Many public runs with no known fault: alarms, forecasts and seeds."""
