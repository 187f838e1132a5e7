"""The seed studies in one room: their presets, conventions, rules and tables."""
