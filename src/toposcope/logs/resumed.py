"""Where a log says that the training was resumed: a line of a text, or a header that comes again."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from toposcope.logs.records import RESTARTED

_SAYS = re.compile(
    r"\b(?:resum(?:ed?|ing)\b.{0,40}\b(?:from|training|run|checkpoint)"
    r"|(?:re)?load(?:ed|ing)\b.{0,20}\bcheckpoint\b.{0,300}\b(?:step|iteration|epoch)s?\W{0,3}\d"
    r"|continuing\b.{0,20}\bfrom\b.{0,20}\bcheckpoint)",
    re.IGNORECASE,
)
"""What trainers print; "restoring from" is not here, because they print it before an evaluation, too."""


def says_resumed(line: str) -> bool:
    """Return whether a line says that the training was resumed.

    >>> says_resumed("Resuming training from out"), says_resumed("Loading checkpoint shards: 100%")
    (True, False)
    >>> says_resumed("successfully loaded checkpoint from /ckpt [ t 0, p 0 ] at iteration 600")
    True
    """
    return _SAYS.search(line[:1024]) is not None


def without_marks(table: pd.DataFrame) -> tuple[pd.DataFrame, tuple[float, ...]]:
    """Return a table without the marks of its records, and the steps of those that have one."""
    marked = table.loc[table[RESTARTED].eq(1), "step"] if "step" in table else ()
    return table.drop(columns=RESTARTED), tuple(float(step) for step in marked if np.isfinite(step))
