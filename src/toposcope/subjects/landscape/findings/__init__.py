"""The findings on the loss surface, and their sentences."""
