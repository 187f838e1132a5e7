"""The longest bar's ratio as a circle drowns in noise."""

import matplotlib.pyplot as plt
import numpy as np

import toposcope as ts

generator = np.random.default_rng(0)


def ratio(cloud):
    """Return death over birth of the longest bar."""
    diagram = ts.rips(cloud)[1]
    return float((diagram.death / diagram.birth).max())


noises = np.linspace(0.05, 0.8, 10)
angles = generator.uniform(0, 2 * np.pi, 80)
ring = np.column_stack([np.cos(angles), np.sin(angles)])
plt.plot(
    noises, [ratio(ring + n * generator.normal(size=(80, 2))) for n in noises], "o-", label="noisy circle"
)
null = [ratio(generator.normal(size=(80, 2))) for _ in range(99)]
plt.axhspan(min(null), np.quantile(null, 0.95), color="0.85", label="95% of Gaussian clouds")
plt.xlabel("noise, in radii")
plt.ylabel("death / birth of the longest H1 bar")
plt.legend()
plt.tight_layout()
