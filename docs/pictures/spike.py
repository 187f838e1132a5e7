"""Three matrices that drift; at the step of the spike one of them jumps."""

import matplotlib.pyplot as plt
import numpy as np

generator = np.random.default_rng(0)
step = np.arange(0, 480, 30)
moves = 0.02 * generator.normal(size=(3, 16, 32, 24))
moves[:, 0] = generator.normal(size=(3, 32, 24))
weights = moves.cumsum(1)
weights[1, 10:] *= 3.0
norms = np.linalg.norm(weights, axis=(2, 3))
fine = np.arange(1, 451)
loss = 2 + 5 * fine**-0.5 + np.where(fine >= 300, 2.5 * np.exp(-(fine - 300) / 40), 0)
figure, (left, right) = plt.subplots(1, 2)
left.plot(fine, loss, linewidth=1)
left.set_ylabel("loss")
left.set_ylim(1.9, 6)
for layer, norm in enumerate(norms):
    right.plot(step, norm / norm[0], ".-", label=f"layer {layer}")
right.set_ylabel("norm of the matrix / at the start")
right.legend()
for ax in (left, right):
    ax.axvline(300, color="0.6", linestyle=":")
    ax.set_xlabel("step")
figure.tight_layout()
