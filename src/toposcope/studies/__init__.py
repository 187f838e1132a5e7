"""The studies that `toposcope reproduce` runs: a folder each, with its runs, claims, tables and page."""
