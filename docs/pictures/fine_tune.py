"""How far a fine-tune moved each matrix; it changed only layers 2 to 4."""

import matplotlib.pyplot as plt
import numpy as np

import toposcope as ts

generator = np.random.default_rng(0)
base = {f"layers.{n}.attn.proj.weight": generator.normal(size=(32, 24)) for n in range(6)}
tuned = {name: values.copy() for name, values in base.items()}
for layer, scale in ((2, 0.05), (3, 0.2), (4, 0.1)):
    tuned[f"layers.{layer}.attn.proj.weight"] += (
        scale * generator.normal(size=(32, 2)) @ generator.normal(size=(2, 24))
    )
figure, ax = plt.subplots(figsize=(7.0, 2.6))
ts.compare({0: base}, {0: tuned}).plot(ax)
figure.tight_layout()
