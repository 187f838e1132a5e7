"""How long a test waits for what must happen: an end for a test that would hang, never an asserted speed."""

from __future__ import annotations

PATIENCE = 900.0
"""Seconds: a command that takes ten seconds alone takes minutes on two cores that ten processes share."""
