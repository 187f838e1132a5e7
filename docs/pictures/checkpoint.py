"""A series with a copy, NaN and two exchanged tensors, as the audit marks them."""

import matplotlib.pyplot as plt
import numpy as np

import toposcope as ts

generator = np.random.default_rng(0)
first, second = (f"layers.{n}.mlp.fc1.weight" for n in range(2))
paths = generator.normal(size=(2, 1, 24, 16)) + 0.1 * generator.normal(size=(2, 12, 24, 16)).cumsum(1)
states = {
    100 * n: {first: paths[0, n].astype("float32"), second: paths[1, n].astype("float32")} for n in range(12)
}
states[300] = {name: values.copy() for name, values in states[200].items()}
states[500][first][3, 4] = np.nan
states[800][first], states[800][second] = states[800][second], states[800][first]
figure, ax = plt.subplots(figsize=(7.0, 2.0))
ts.audit(states).plot(ax)
figure.tight_layout()
