"""
Check a log
===========

Is this run all right, and where will it end? One call on the log that the trainer writes.
"""

from pathlib import Path
from tempfile import mkdtemp

import numpy as np

import toposcope as ts

# %%
# A log as many trainers print it: 400 of 1,000 planned steps.
noise = np.random.default_rng(0).normal(0, 0.02, 400)
lines = [f"step:{n}/1000 train_loss:{2 + 5 * n**-0.5 + noise[n - 1]:.4f}" for n in range(1, 401)]
log = Path(mkdtemp()) / "train.log"
log.write_text("\n".join(lines))

# %%
# The first line is the answer. The reasons and the limits follow.
answer = ts.check(log)
print(answer)

# %%
# The losses, a running median, and the forecast with its interval.
answer.plot()
