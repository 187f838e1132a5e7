"""Unrelated clouds: plain CKA rises with the dimension, the debiased one does not."""

import matplotlib.pyplot as plt
import numpy as np

from toposcope.subjects.representations.probes.across_layers import linear_cka

generator = np.random.default_rng(0)
dimensions = [2, 5, 10, 30, 100, 300, 1000]
pairs = [generator.normal(size=(2, 100, d)) for d in dimensions]
for debiased in (False, True):
    name = "debiased" if debiased else "plain"
    plt.plot(dimensions, [linear_cka(X, Y, debiased=debiased) for X, Y in pairs], "o-", label=name)
plt.xscale("log")
plt.xlabel("dimension of two unrelated clouds of 100 points")
plt.ylabel("CKA")
plt.legend()
plt.tight_layout()
