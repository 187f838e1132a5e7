"""Numba kernels on plain arrays: no validation, no random numbers, no objects."""
