"""The subjects of measurement, a folder each: features, request, probes, figures, page."""
