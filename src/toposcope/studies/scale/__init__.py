"""The weight-space study on a family of larger models, trained on what the machine has installed."""
