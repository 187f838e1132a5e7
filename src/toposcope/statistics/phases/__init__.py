"""When a feature changes: published rules, segments with a known false-alarm rate, and an online detector."""
