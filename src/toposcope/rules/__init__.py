"""What may be said of a log: one file a rule, and the judgement that follows from them."""
