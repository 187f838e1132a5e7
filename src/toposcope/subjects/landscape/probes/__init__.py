"""Probes of the loss surface: curvature, sampled surfaces, paths, sharpness, retraining."""
