"""Three ranks of one spectrum."""

import matplotlib.pyplot as plt
import numpy as np

import toposcope as ts

generator = np.random.default_rng(0)
left = np.linalg.qr(generator.normal(size=(96, 64)))[0]
right = np.linalg.qr(generator.normal(size=(64, 64)))[0]
exponents = np.linspace(0, 2, 9)
found = [ts.topology.baselines((left * np.arange(1, 65) ** -e) @ right.T) for e in exponents]
for name in ("stable_rank", "rankme", "participation_ratio"):
    plt.plot(exponents, [one[name] for one in found], "o-", label=name)
plt.xlabel("exponent of the spectrum, singular value k ~ k^-exponent (64 of them)")
plt.ylabel("effective rank")
plt.legend()
plt.tight_layout()
