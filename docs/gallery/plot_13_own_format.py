"""
A format of your own
====================

One class lists the tensors of a file and reads them. Steps, roles, audits and measurements then work as they
do for every other format.
"""

import json
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

import toposcope as ts
from toposcope.files.formats.reader import Facts, TensorInfo, check_rows, find, read_json
from toposcope.files.formats.registry import FileFormat, add_format


class Listed:
    """Weights as lists in JSON: {"step": 100, "tensors": {NAME: [[...], [...]]}}."""

    def __init__(self, blob):
        self.label = blob.label
        content = read_json(blob)
        self._step = content.get("step")
        self._values = {name: np.asarray(rows, np.float32) for name, rows in content["tensors"].items()}
        self._infos = {name: TensorInfo(name, x.shape, x.dtype) for name, x in self._values.items()}

    def infos(self):
        """Return the tensors of the file."""
        return self._infos

    def read(self, name):
        """Return a tensor."""
        find(self._infos, self.label, name)
        return self._values[name]

    def rows(self, name, start, stop):
        """Return some rows of a tensor."""
        check_rows(find(self._infos, self.label, name), self.label, start, stop)
        return self._values[name][start:stop]

    def facts(self):
        """Return what else the file states."""
        return Facts(step=self._step)


add_format(FileFormat("listed", (".listed.json",), Listed))

# %%
# Five files form a series.
folder = Path(mkdtemp())
for step in range(0, 500, 100):
    values = (1 + step / 100) * np.sin(np.arange(24.0)).reshape(6, 4)
    content = {"step": step, "tensors": {"layers.0.mlp.fc1.weight": values.tolist()}}
    (folder / f"step_{step:06d}.listed.json").write_text(json.dumps(content))
series = ts.open_series(folder)
print(series)

# %%
# They are measured like any other checkpoints.
norms = ts.measure(series, mkdtemp(), features="baselines").features(feature="frobenius_norm")
ax = norms.query("scope == 'matrix'").plot("step", "value", style="o-", legend=False)
ax.set_ylabel("Frobenius norm")
