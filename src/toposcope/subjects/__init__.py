"""From a checkpoint to rows and diagrams."""
