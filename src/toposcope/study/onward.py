"""The runs of the demo, and what their reader does next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposcope.core.wording import runnable
from toposcope.recipes import load_training_recipe

if TYPE_CHECKING:
    import pandas as pd

RECIPE = "demo"
ONWARD = "Now your own run"


def onward(runs: pd.DataFrame) -> str:
    """Return the next step after the demo's runs, the reader's own run; "" for other runs.

    >>> import pandas as pd
    >>> onward(pd.DataFrame({"run": ["a"], "family": ["demo"], "corpus": ["a corpus of my own"]}))
    ''
    """
    if not len(runs) or not {"family", "corpus"} <= set(runs) or set(runs["family"]) != {RECIPE}:
        return ""
    # another study may be called "demo", too: its corpus is not the recipe's
    if set(runs["corpus"]) != {load_training_recipe(RECIPE).corpus}:
        return ""
    return f"{ONWARD}: {runnable('check', 'train.log')}"
