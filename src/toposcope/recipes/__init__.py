"""Recipes: studies and models as TOML data."""
