"""One curve, sound, with a spike that has not passed, and rising; each with its answer."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import toposcope as ts

step = np.arange(1, 401)
sound = 2 + 5 * step**-0.5 + np.random.default_rng(0).normal(0, 0.02, 400)
spike = np.where(step == 400, 2.5 * sound, sound)
rising = sound * np.exp(np.maximum(step - 320, 0) / 100)
figure, places = plt.subplots(1, 3, sharey=True)
for ax, loss in zip(places, (sound, spike, rising), strict=True):
    answer = ts.check(pd.DataFrame({"step": step, "loss": loss}), horizon=1000)
    ax.plot(step, loss, linewidth=1)
    ax.set_title(answer.runs[0].level)
    ax.set_ylim(1.9, 6)
    ax.set_xlabel("step")
places[0].set_ylabel("loss")
figure.tight_layout()
