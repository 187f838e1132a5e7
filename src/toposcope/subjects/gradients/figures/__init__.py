"""Figures of gradients."""
