"""What a model makes of fixed texts: hidden states and attention."""
