"""Probes of representations: clouds of states, attention, linear probes, sensitivity."""
