"""Figures of weights."""
