"""The power of a comparison of two recipes, by the number of seeds of each."""

import matplotlib.pyplot as plt
import numpy as np

from toposcope.statistics.seeds import power

sizes = np.linspace(0, 5, 101)
figure, ax = plt.subplots()
for seeds in (20, 10, 5, 3, 2):
    found = [100 * power(size, seeds, seeds, 2 * seeds - 2) for size in sizes]
    ax.plot(sizes, found, label=f"{seeds} of each")
ax.axhline(80, color="0.6", linestyle=":", linewidth=1)
ax.set_xlabel("difference, in standard deviations between seeds")
ax.set_ylabel("found, %")
ax.legend()
figure.tight_layout()
