"""A model's representations of fixed texts: hidden states and attention."""
