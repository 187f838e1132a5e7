"""What can be measured of a checkpoint, a folder each: features, request, probes, figures, page."""
