"""
Rings that form
===============

When a model learns addition modulo 59, the residues come to lie on circles in its embedding. Here the circle
is made by hand and grows out of noise. H1 finds it once it is larger than the noise. The page on the positive
control has the real runs.
"""

import matplotlib.pyplot as plt
import numpy as np

import toposcope as ts

generator = np.random.default_rng(0)
angles = 2 * np.pi * np.arange(59) * 7 / 59
circle = np.column_stack([np.cos(angles), np.sin(angles)])
noise = 0.15 * generator.normal(size=(59, 2))
growth = np.linspace(0, 1, 15)


def longest(points):
    """Return the longest H1 bar over the radius of the cloud."""
    diagram = ts.rips(points)[1]
    return float((diagram.death - diagram.birth).max() / np.sqrt((points**2).sum(1).mean()))


bars = [longest(g * circle + noise) for g in growth]
# %%
# The null: clouds of 59 normal points, without a circle.
null = [longest(generator.normal(size=(59, 2))) for _ in range(99)]
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6))
left.plot(*(circle + noise).T, ".")
left.set_aspect("equal")
left.set_title("the last checkpoint")
right.plot(growth, bars, "o-")
right.axhspan(min(null), np.quantile(null, 0.95), color="0.85", label="95% of clouds without a circle")
right.set_xlabel("radius of the circle")
right.set_ylabel("longest H1 bar / radius")
right.legend()
figure.tight_layout()
