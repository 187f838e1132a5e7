"""Two unrelated walks, and their steps."""

import matplotlib.pyplot as plt
import numpy as np

generator = np.random.default_rng(3)
steps = generator.normal(size=(2, 60))
walks = steps.cumsum(1)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.0, 3.0))
left.plot(walks.T)
left.set_title(f"two unrelated walks: r = {np.corrcoef(walks)[0, 1]:+.2f}")
left.set_xlabel("checkpoint")
right.plot(*steps, ".", color="0.3")
right.set_title(f"their steps: r = {np.corrcoef(steps)[0, 1]:+.2f}")
right.set_xlabel("step of the first")
right.set_ylabel("step of the second")
figure.tight_layout()
