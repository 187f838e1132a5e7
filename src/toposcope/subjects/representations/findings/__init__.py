"""The findings on representations alone, and their sentences."""
