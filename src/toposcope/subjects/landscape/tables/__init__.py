"""The result tables of the loss surface."""
