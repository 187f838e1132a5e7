"""A loss along an update."""

import matplotlib.pyplot as plt
import numpy as np

t = np.linspace(0, 3.2, 200)
loss = 2 - 0.6 * t + 0.22 * t**2
back = 0.6 / 0.22
plt.plot(t, loss)
plt.axhline(2, color="0.6", linewidth=1)
plt.axvline(1, color="0.6", linestyle=":", linewidth=1)
plt.plot([back], [2], "o", color="C1")
plt.annotate(f"back at its start at {back:.2f}: sharpness {2 / back:.2f}", (back, 2), (1.1, 2.12))
plt.xlabel("multiple of the update (1: the step that was taken)")
plt.ylabel("loss of one batch")
plt.tight_layout()
