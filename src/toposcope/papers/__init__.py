"""The reproduced papers and studies: their presets, conventions, rules and tables."""
