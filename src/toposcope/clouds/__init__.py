"""Tests whether a cloud of points has a ring: reading, nulls, test, power, plane and picture."""
