"""
The demo, short
===============

``toposcope demo`` trains five small models, measures them and writes a report. Here it has two models and
twelve updates, so it takes seconds. Nothing can be concluded from so short a run, and the answer says so.
Needs the extra ``train``.
"""

from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt

import toposcope as ts
from toposcope.studies.demo import run_demo

few = {"steps": 12, "checkpoint_every": 2, "warmup_steps": 2, "models": ["tiny-3k", "small-7k"]}
demo = run_demo(Path(mkdtemp()) / "demo", jobs=1, overrides=few, quiet=True, say=lambda line: None)
print(demo.analysis.line)

# %%
# The page that it wrote, and the store behind it.
print(demo.page.name, sorted(path.name for path in demo.page.parent.iterdir()))
analysis = ts.analyze(demo.store)
print(analysis)

# %%
# The first of its figures.
figures = demo.page.parent / "figures"
figure, ax = plt.subplots(figsize=(9, 5))
ax.imshow(plt.imread(figures / "loss.png"))
ax.axis("off")
