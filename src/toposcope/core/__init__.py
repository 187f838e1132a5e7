"""Nouns, errors, random numbers, processes, progress and printed tables: what every room may import."""
