"""The seed studies in one room: their presets, conventions, rules and tables; nothing below knows a number of theirs."""
