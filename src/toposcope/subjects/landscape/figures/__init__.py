"""Figures of the loss surface."""
