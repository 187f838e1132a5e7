"""Tables and figures on one self-contained page."""
