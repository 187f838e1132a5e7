"""Whole studies, from a series to the tables of a paper."""
