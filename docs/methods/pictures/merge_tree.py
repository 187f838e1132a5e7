"""Two wells and their branches."""

import matplotlib.pyplot as plt
import numpy as np

from toposcope.topology.merge_tree import merge_tree

x = np.linspace(-2, 2, 81)
surface = (x[:, None] ** 2 - 1) ** 2 + x[None, :] ** 2 + 0.2 * x[:, None]
tree = merge_tree(surface)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.0, 3.0))
left.contour(x, x, surface.T, levels=20, linewidths=0.7)
values = surface.ravel()
for n, place in enumerate(tree.minimum[:2]):
    row, column = np.unravel_index(place, surface.shape)
    left.plot(x[row], x[column], "o", color=f"C{n}")
    top = values[tree.saddle[n]] if tree.saddle[n] >= 0 else 2.0
    right.plot([n, n], [values[place], top], "-o", color=f"C{n}", markevery=[0])
right.hlines(values[tree.saddle[1]], 0, 1, color="0.5")
right.set_xticks([0, 1], ["first minimum", "second minimum"])
right.set_xlim(-0.5, 1.5)
right.set_ylabel("loss")
figure.tight_layout()
