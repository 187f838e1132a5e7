"""Representations of texts: from a model's hidden states to clouds, rows and diagrams."""
