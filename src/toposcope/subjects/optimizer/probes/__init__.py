"""Probes of the moments: numbers of each matrix, and the persistence of its bipartite graph."""
