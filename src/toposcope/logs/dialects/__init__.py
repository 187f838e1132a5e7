"""The dialects of logs: a file each, and the table of dialects."""
