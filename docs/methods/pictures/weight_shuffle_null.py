"""A matrix with uneven rows beside 200 shuffles of its entries."""

import matplotlib.pyplot as plt
import numpy as np

import toposcope as ts
from toposcope.topology.weight_null import shuffled_neural_persistence

generator = np.random.default_rng(0)
W = generator.normal(size=(96, 64)) * np.exp(0.6 * generator.normal(size=(96, 1)))
null = shuffled_neural_persistence(W, 200, rng=generator)
plt.hist(null, bins=24, color="0.7", label="200 shuffles")
plt.axvline(ts.neural_persistence(W), color="C0", label="the matrix")
plt.xlabel("neural persistence")
plt.ylabel("shuffles")
plt.legend()
plt.tight_layout()
