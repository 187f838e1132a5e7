"""The part of the page that is about gradients."""
