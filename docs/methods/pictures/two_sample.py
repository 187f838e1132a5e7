"""The power of the test against the number of texts, as 128 of them state it."""

import matplotlib.pyplot as plt
import numpy as np

import toposcope as ts

generator = np.random.default_rng(0)
before = generator.normal(size=(128, 5))
after = before * [1.6, 1, 1, 1, 1] + generator.normal(0, 0.2, (128, 5))
test = ts.topology.two_sample(before, after, paired=True)
rows = np.arange(6, 60, 3) * test.rows
for size, label in ((1.0, "the whole shift"), (0.5, "half of it")):
    (line,) = plt.plot(rows, [test.power(n, size) for n in rows], label=label)
    if test.needed(size) <= rows[-1]:
        plt.axvline(test.needed(size), color=line.get_color(), linestyle=":", linewidth=1)
plt.axhline(0.8, color="0.6", linewidth=1)
plt.xlabel("texts (dotted: as many as a power of 80% needs)")
plt.ylabel("share of samples that find it")
plt.ylim(0, 1.02)
plt.legend()
plt.tight_layout()
