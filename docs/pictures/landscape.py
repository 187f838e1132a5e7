"""The loss of a tiny network on a plane of two random directions around its weights, and its minima."""

import matplotlib.pyplot as plt
import numpy as np

from toposcope.topology.merge_tree import merge_tree

generator = np.random.default_rng(0)
inputs = generator.normal(size=(64, 4))
targets = np.sin(inputs.sum(1))
first, second = generator.normal(size=(4, 12)), 0.3 * generator.normal(size=12)
for _ in range(400):  # gradient descent on both layers
    hidden = np.tanh(inputs @ first)
    error = (hidden @ second - targets) / 32
    back = np.outer(error, second) * (1 - hidden**2)
    first, second = first - 0.3 * inputs.T @ back, second - 0.3 * hidden.T @ error
lengths = np.linalg.norm(first, axis=0)
across, along = generator.normal(size=(2, 4, 12))
across, along = (one / np.linalg.norm(one, axis=0) * lengths for one in (across, along))
reach = np.linspace(-1, 1, 41)
places = first + reach[:, None, None, None] * across + reach[None, :, None, None] * along
loss = ((np.tanh(np.einsum("ni,abih->abnh", inputs, places)) @ second - targets) ** 2).mean(-1)
tree = merge_tree(loss)
figure, ax = plt.subplots(figsize=(7.0, 3.6))
drawn = ax.contourf(reach, reach, loss.T, levels=20)
rows, columns = np.unravel_index(tree.minimum, loss.shape)
ax.plot(reach[rows], reach[columns], "o", color="white", markeredgecolor="black", label="minima on the plane")
figure.colorbar(drawn, label="loss")
ax.set_xlabel("first direction, in lengths of the weights")
ax.set_ylabel("second direction")
ax.legend()
figure.tight_layout()
