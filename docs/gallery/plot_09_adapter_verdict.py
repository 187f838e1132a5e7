"""
Did the adapter do anything?
============================

A low-rank update of one layer is merged into its base. Which matrices moved, and is the change larger than
the difference between two seeds of the same fine-tune?
"""

import numpy as np

import toposcope as ts

# %%
# The base, and two seeds of a rank-2 update of layer 1.
generator = np.random.default_rng(0)
base = {f"layers.{n}.attn.proj.weight": generator.normal(size=(32, 24)) for n in range(4)}
direction = generator.normal(size=(2, 24))


def tuned(scale):
    """Return the base with one layer moved along the same two inputs."""
    merged = dict(base)
    name = "layers.1.attn.proj.weight"
    merged[name] = base[name] + scale * generator.normal(size=(32, 2)) @ direction
    return merged


first, second = tuned(0.2), tuned(0.2)

# %%
# Against the base, and seed against seed.
to_base = ts.compare({0: base}, {0: first})
to_seed = ts.compare({0: first}, {0: second})
print(to_base)
print(to_seed)

# %%
# The rank of the change shows that it comes from an adapter.
change = first["layers.1.attn.proj.weight"] - base["layers.1.attn.proj.weight"]
print({name: round(value, 2) for name, value in ts.topology.baselines(change).items()})
to_base.plot()
