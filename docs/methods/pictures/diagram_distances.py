"""Circles that grow, and the floor that two draws of one circle set."""

import matplotlib.pyplot as plt
import numpy as np

import toposcope as ts

generator = np.random.default_rng(0)
angles = generator.uniform(0, 2 * np.pi, 60)


def loops(radius):
    """Return H1 of a noisy circle."""
    ring = radius * np.column_stack([np.cos(angles), np.sin(angles)])
    return ts.rips(ring + 0.05 * generator.normal(size=(60, 2)))[1]


first = loops(1.0)
radii = np.linspace(1.0, 2.0, 11)
for label, distance in (("Wasserstein", ts.topology.wasserstein), ("bottleneck", ts.topology.bottleneck)):
    (line,) = plt.plot(radii, [distance(first, loops(r)) for r in radii], "o-", label=label)
    floor = np.quantile([distance(loops(1.0), loops(1.0)) for _ in range(20)], 0.95)
    plt.axhline(floor, color=line.get_color(), linestyle=":", linewidth=1)
plt.xlabel("radius of the second circle (the first has 1; dotted: 95% of pairs of equal circles)")
plt.ylabel("distance")
plt.legend()
plt.tight_layout()
