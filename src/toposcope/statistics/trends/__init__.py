"""Whether a feature and a target share more than a trend, and every test's true error rate."""
