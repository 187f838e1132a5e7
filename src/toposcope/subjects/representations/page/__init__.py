"""The report's part on representations: its study, words, tables and figures."""
