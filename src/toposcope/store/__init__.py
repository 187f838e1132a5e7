"""A folder of parquet parts: runs, metrics, features, diagrams."""
