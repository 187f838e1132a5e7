"""Gradients of the loss at a checkpoint."""
