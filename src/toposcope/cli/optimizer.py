"""`toposcope optimizer`: measure the optimiser's state of every checkpoint into a store."""

from __future__ import annotations

from toposcope.cli.subject import command_of
from toposcope.subjects.optimizer.subject import SUBJECT

command = command_of(SUBJECT)
