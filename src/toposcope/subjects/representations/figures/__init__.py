"""Figures of representations."""
