"""When a feature changes: published rules, segments with a known false-alarm rate, an online detector."""
