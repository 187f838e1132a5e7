"""A finding: the numbers behind one answer, its strength, its test, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

QUESTIONS = {
    "trained": "How well did they train?",
    "sound": "Are the measurements sound?",
    "odd": "Which run is odd?",
    "changed": "What changed?",
    "when": "When did it change?",
    "beyond": "Does {noun} add anything to the {target}?",
    "rivals": "Does topology follow the {target} more closely than plain numbers?",
    "end": "Where will it end?",
    "on": "Should a run go on?",
    "scale": "Does it scale?",
    "layers": "What happens from layer to layer?",
    "surfaces": "What is on the surfaces?",
    "ring": "Is there a ring?",
    "settings": "How far do the settings move it?",
}
"""Every question in reading order, with its words."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to one question, in numbers.

    `strength` is one of a closed set for each question (the templates' names): it determines the sentence of
    the answer. `numbers` holds plain data: estimates with their intervals as [low, high], counts, names.
    `test` names the test behind the strength, and `left_out` what it does not include and why.
    """

    question: str
    strength: str
    numbers: Mapping[str, Any]
    test: str = ""
    left_out: tuple[str, ...] = ()
