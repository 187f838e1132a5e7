"""
Which seed is odd?
==================

Six seeds of one recipe. Seed 3 was trained with a quarter of the learning rate; its log has the rate, too.
"""

import numpy as np
import pandas as pd

import toposcope as ts

generator = np.random.default_rng(0)
step = np.arange(1, 301)


def seed(n, rate=1e-3):
    """Return the log of a seed."""
    level = (2 + 4 * step ** -(0.5 if rate == 1e-3 else 0.35)) * (1 + 0.004 * generator.normal())
    loss = level + 0.01 * generator.normal(size=300)
    return pd.DataFrame(
        {"run": f"seed{n}", "step": step, "loss": loss, "learning_rate": rate, "parameters": 10_000}
    )


runs = pd.concat([seed(n, rate=2.5e-4 if n == 3 else 1e-3) for n in range(6)])
answer = ts.check(runs, horizon=300)
print(answer)

# %%
# The answer names seed 3 by its loss at step 300, 2.522 where the others have 2.211 to 2.244. It says since
# when it differs (from the start), which setting differs (2.5e-4 at step 1, the others 1e-3), and what to do.
# The picture shows the same: its curve never meets the others.
answer.plot()
