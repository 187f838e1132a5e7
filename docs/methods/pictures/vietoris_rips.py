"""A noisy circle and its diagram."""

import matplotlib.pyplot as plt
import numpy as np

import toposcope as ts

generator = np.random.default_rng(0)
angles = generator.uniform(0, 2 * np.pi, 80)
points = np.column_stack([np.cos(angles), np.sin(angles)]) + 0.08 * generator.normal(size=(80, 2))
h0, h1 = ts.rips(points)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.0, 3.4))
left.plot(*points.T, ".")
left.set_aspect("equal")
left.set_title("points")
right.plot([0, 1.8], [0, 1.8], color="0.6", linewidth=1)
right.plot(h0.birth[np.isfinite(h0.death)], h0.death[np.isfinite(h0.death)], ".", color="0.4", label="H0")
right.plot(h1.birth, h1.death, "o", color="C1", label="H1")
right.set_xlabel("birth")
right.set_ylabel("death")
right.legend()
figure.tight_layout()
