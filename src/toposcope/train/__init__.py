"""Corpora, the GPT family and the training loop: it makes runs."""
