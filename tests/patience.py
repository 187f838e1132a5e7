"""How long a test waits for what must happen, and how a command that it started can be ended by Ctrl-C."""

from __future__ import annotations

import signal

PATIENCE = 900.0
"""Seconds: a command that takes ten seconds alone takes minutes on two cores that ten processes share."""


def hears_ctrl_c() -> None:
    """Undo what a shell does to commands in the background: they are started deaf to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
