"""
Audit of a broken series
========================

Four faults that no trainer reports: a checkpoint that is a copy, one with NaN, one with two tensors
exchanged, and one that is missing.
"""

import numpy as np

import toposcope as ts

# %%
# A path of weights, with the four faults.
generator = np.random.default_rng(0)
names = ["layers.0.mlp.fc1.weight", "layers.1.mlp.fc1.weight"]
moves = {name: 0.1 * generator.normal(size=(12, 24, 16)).cumsum(0) for name in names}
paths = {name: (generator.normal(size=(24, 16)) + move).astype("float32") for name, move in moves.items()}
states = {100 * n: {name: path[n].copy() for name, path in paths.items()} for n in range(12)}
states[300] = {name: w.copy() for name, w in states[200].items()}
states[500][names[0]][3, 4] = np.nan
states[800][names[0]], states[800][names[1]] = states[800][names[1]], states[800][names[0]]
del states[1000]

# %%
# The audit names each fault, with its step.
found = ts.audit(states)
print(found)
for finding in found.findings:
    print(finding)

# %%
# Where they are.
found.plot()
