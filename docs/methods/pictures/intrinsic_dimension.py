"""Cubes of known dimension."""

import matplotlib.pyplot as plt
import numpy as np

import toposcope as ts

generator = np.random.default_rng(0)
true = np.array([1, 2, 3, 5, 7, 10])
clouds = [generator.uniform(size=(300, d)) for d in true]
for name in ("twonn", "mle_dimension", "ph_dimension"):
    estimate = getattr(ts.topology, name)
    plt.plot(true, [estimate(cloud).value for cloud in clouds], "o-", label=name)
plt.plot(true, true, color="0.6", linestyle="--", label="truth")
plt.xlabel("dimension of a cube with 300 points")
plt.ylabel("estimate")
plt.legend()
plt.tight_layout()
