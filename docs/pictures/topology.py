"""Pairs of curves that have nothing in common: correlations of the curves and of their changes."""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr

generator = np.random.default_rng(0)
steps = generator.normal(size=(500, 2, 51))
walks = steps.cumsum(2)
figure, ax = plt.subplots()
bins = np.linspace(-1, 1, 41)
for label, pairs in (("two drifting curves", walks), ("their changes", steps)):
    ax.hist([spearmanr(*pair).statistic for pair in pairs], bins=bins, alpha=0.6, label=label)
ax.set_xlabel("Spearman's rho of 500 unrelated pairs, 51 checkpoints each")
ax.set_ylabel("pairs")
ax.legend()
figure.tight_layout()
