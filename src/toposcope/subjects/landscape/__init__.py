"""Probes of the loss surface: critical sharpness (cheap), curvature and sampled surfaces (costly)."""
