"""Probes of weight matrices."""
