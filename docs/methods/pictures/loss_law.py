"""A law with a floor, fitted with and without it."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import toposcope as ts

generator = np.random.default_rng(0)
sizes = np.array([1e6, 4e6, 16e6, 64e6, 256e6])
truth = lambda n: 1.6 * (n / 1e6) ** -0.34 + 2.4  # noqa: E731
models = pd.DataFrame({"parameters": sizes, "loss": truth(sizes) * (1 + 0.003 * generator.normal(size=5))})
beyond = np.geomspace(1e6, 1e10, 100)
plt.plot(beyond, truth(beyond), color="0.7", label="truth")
for law, style in (("offset", "-"), ("power", "--")):
    values = ts.fit_scaling_law(models, law).table.set_index("parameter")["value"]
    fitted = values["scale"] * beyond ** values["exponent"] + values.get("offset", 0.0)
    plt.plot(beyond, fitted, style, label=f"law {law}")
plt.plot(sizes, models["loss"], "ko")
plt.xscale("log")
plt.xlabel("parameters")
plt.ylabel("loss")
plt.legend()
plt.tight_layout()
