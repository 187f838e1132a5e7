"""
Is there a ring in this cloud?
==============================

A noisy circle in ten dimensions, and a cloud of three clusters. Each gets an answer with an error rate.
"""

import numpy as np

import toposcope as ts

generator = np.random.default_rng(0)
angles = generator.uniform(0, 2 * np.pi, 80)
ring = np.zeros((80, 10))
ring[:, :2] = np.column_stack([np.cos(angles), np.sin(angles)])
ring += 0.1 * generator.normal(size=ring.shape)
answer = ts.cloud(ring, draws=39, quiet=True)
print(answer)

# %%
# The plane in which the loop lies, and the bar beside its nulls.
answer.plot()

# %%
# Clusters have H1 bars, too, but no longer than other clouds without a ring have.
centres = 3 * generator.normal(size=(3, 10))
clusters = centres[generator.integers(3, size=80)] + generator.normal(size=(80, 10))
print(ts.cloud(clusters, draws=39, quiet=True))
