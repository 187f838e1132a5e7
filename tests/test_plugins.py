"""What installed packages bring is checked at one place: a broken one ends in a line that names it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from toposcope.core import plugins
from toposcope.core.errors import InputError


def offered(monkeypatch: pytest.MonkeyPatch, load: Any) -> None:
    point = SimpleNamespace(name="mine", value="mine:THING", load=load)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])


def test_objects_and_classes_of_the_kind_are_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    offered(monkeypatch, lambda: "text")
    assert list(plugins.brought("toposcope.things", str, bytes)) == ["text"]
    offered(monkeypatch, lambda: KeyError)
    assert list(plugins.brought_classes("toposcope.things", LookupError)) == [KeyError]


def test_another_kind_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    offered(monkeypatch, lambda: 3)
    with pytest.raises(InputError, match=r"mine = mine:THING is not of the kind str or bytes; correct the"):
        list(plugins.brought("toposcope.things", str, bytes))
    with pytest.raises(InputError, match="is not of the kind LookupError"):
        list(plugins.brought_classes("toposcope.things", LookupError))


def test_a_package_that_cannot_be_imported_is_named_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        raise ModuleNotFoundError("No module named 'gone'")

    offered(monkeypatch, load)
    with pytest.raises(
        InputError, match=r"cannot be imported \(ModuleNotFoundError: No module named 'gone'\);"
    ):
        list(plugins.brought("toposcope.things", str))
