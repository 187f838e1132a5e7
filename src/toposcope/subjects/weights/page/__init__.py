"""The report's part on weights: its study, words, tables and figures."""
