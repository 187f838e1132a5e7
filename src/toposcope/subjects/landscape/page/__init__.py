"""The part of the page on the loss surface."""
