"""The options that say how logs and checkpoints are read."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from toposcope.core.errors import InputError

pattern_option = click.option(
    "--pattern",
    metavar="REGEX",
    help="Regex for the lines of a text log that is not recognised: 'it (?P<step>\\d+) L=(?P<loss>\\S+)'. "
    "Further groups: heldout_loss, learning_rate, grad_norm, epoch.",
)
step_pattern_option = click.option(
    "--step-pattern",
    metavar="REGEX",
    help="Regex with one group that extracts the step from the name of a file or folder: 'run_(\\d+)'.",
)


def renamed(pairs: Sequence[str]) -> dict[str, str]:
    """Return the columns that `OLD=NEW` renames.

    >>> renamed(["val=heldout_loss"])
    {'val': 'heldout_loss'}
    """
    for pair in pairs:
        if not re.fullmatch(r"[^=]+=[^=]+", pair):
            raise InputError(
                "not OLD=NEW", argument="rename", value=pair, remedy="write for example val=heldout_loss"
            )
    return dict(pair.split("=") for pair in pairs)  # type: ignore[misc]
