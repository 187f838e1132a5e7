"""Tables of what a feature tells beyond the trend it shares with its target."""
