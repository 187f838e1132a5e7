"""Checkpoint series: who each checkpoint is, and its tensors as a stream."""
