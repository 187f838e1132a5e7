"""Weight matrices and their change over training."""
