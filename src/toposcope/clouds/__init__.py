"""Is there a ring in a cloud of points? Reading, nulls, test, power, plane and picture."""
