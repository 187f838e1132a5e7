"""
A against B
===========

Two runs with different learning rates, compared by their logs and by their weights. One run of each is no
test: the figure shows what can be seen, and the text says what cannot be concluded.
"""

import numpy as np
import pandas as pd

import toposcope as ts

# %%
# Two logs. Each is checked alone, and each is forecast alone.
generator = np.random.default_rng(0)
step = np.arange(1, 401)


def log(run, exponent):
    """Return the log of a run."""
    loss = 2 + 5 * step**-exponent + 0.02 * generator.normal(size=400)
    return pd.DataFrame({"run": run, "step": step, "loss": loss})


both = pd.concat([log("A", 0.45), log("B", 0.5)])
answer = ts.check(both, horizon=1000)
print(answer)
answer.plot()

# %%
# The intervals of the two forecasts say where each will end. They do not say whether B would be better than A
# with *another seed*: that takes several seeds of each.
#
# The weights of both, matrix by matrix.
base = {f"layers.{n}.mlp.fc1.weight": generator.normal(size=(32, 24)) for n in range(3)}
other = {name: w * (1.3 if ".2." in name else 1.0) for name, w in base.items()}
difference = ts.compare({400: base}, {400: other})
print(difference)
difference.plot()
