"""The positive control: a transition that is known to happen."""
