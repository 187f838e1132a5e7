"""Probes of weights: neural persistence, Rips diagrams, trajectories, updates, baselines."""
