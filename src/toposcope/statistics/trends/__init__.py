"""Whether a feature and a target share more than a trend, and the true error rate of every test."""
