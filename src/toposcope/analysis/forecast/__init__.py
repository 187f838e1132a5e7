"""Forecasts of the final loss, with intervals, and topology always ablated."""
