"""`help` of every public name says what it takes, what it gives, what it refuses, and shows it."""

from __future__ import annotations

import dataclasses
import doctest
import enum
import inspect
import re

import pytest

import toposcope as ts

NAMES = sorted(name for name in ts.__all__ if not name.startswith("_"))
CLASSES = [name for name in NAMES if inspect.isclass(getattr(ts, name))]
MODULES = [name for name in NAMES if inspect.ismodule(getattr(ts, name)) and not callable(getattr(ts, name))]
FUNCTIONS = [name for name in NAMES if name not in (*CLASSES, *MODULES)]
OF_ARRAYS = ["neural_persistence", "rips", "weight_diagram"]


def _help(name: str) -> str:
    return inspect.getdoc(getattr(ts, name)) or ""


def _sections(text: str) -> dict[str, str]:
    """Return the numpy sections of a docstring by their heading; the text before them under ""."""
    parts = re.split(r"^(\w+)\n-+$", text, flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def _described(text: str) -> set[str]:
    """Return the names that a Parameters section describes."""
    heads = re.findall(r"^(\w[\w, ]*?)(?: : .*)?$", text, flags=re.M)
    return {name.strip() for head in heads for name in head.split(",")}


def _said(text: str) -> set[str]:
    """Return every name that stands in backticks, or has a line of its own among the parameters."""
    return set(re.findall(r"`(\w+)`", text)) | _described(_sections(text).get("Parameters", ""))


@pytest.mark.parametrize("name", NAMES)
def test_help_begins_with_one_sentence_and_ends_with_an_example_that_runs(name):
    opening = _help(name).split("\n\n")[0]
    assert re.fullmatch(r"[A-Z].*\.", opening, flags=re.S)
    assert len(opening) <= 330
    examples = doctest.DocTestParser().get_examples(_help(name))
    assert any(doctest.SKIP not in one.options for one in examples)
    assert any(one.want and doctest.SKIP not in one.options for one in examples)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_functions_help_has_every_parameter_what_it_returns_and_what_it_raises(name):
    sections = _sections(_help(name))
    assert list(sections)[1:4] == ["Parameters", "Returns", "Raises"]
    assert list(sections)[-1] == "Examples"
    signature = inspect.signature(getattr(ts, name))
    assert _described(sections["Parameters"]) == set(signature.parameters)
    assert inspect.Signature.empty not in {one.annotation for one in signature.parameters.values()}
    assert signature.return_annotation is not inspect.Signature.empty
    assert re.search(r"^\w*Error\n    \S", sections["Raises"], flags=re.M)
    assert re.search(r"\w", sections["Returns"])


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_a_function_of_arrays_says_formula_shape_dtype_and_source(name):
    text = _help(name)
    assert "References" in _sections(text)
    assert re.search(r"shape \(n", text)
    assert re.search(r"float\d+|float type", text)
    assert re.search(r"=|:math:|\(scale, w_e\)", text)
    assert re.search(r"[Uu]nit|\[0, 1\]", text)


@pytest.mark.parametrize("name", CLASSES)
def test_a_classs_help_names_its_fields_and_every_public_part_of_it_has_help(name):
    given = getattr(ts, name)
    if issubclass(given, enum.Enum):
        source = inspect.getsource(given)
        for member in given:
            assert re.search(rf'^    {member.name} = .*\n    """[A-Z][^"]*\."""$', source, flags=re.M), member
        return
    if dataclasses.is_dataclass(given):
        assert {field.name for field in dataclasses.fields(given)} <= _said(_help(name))
    elif "__init__" in vars(given) and not issubclass(given, ValueError) and name not in ("Series", "Store"):
        wanted = set(inspect.signature(given).parameters)
        assert wanted <= _said(_help(name))
    for part, value in inspect.getmembers(given):
        function = value.fget if isinstance(value, property) else value
        if part.startswith("_") or not inspect.isroutine(function):
            continue
        if not str(getattr(function, "__module__", "")).startswith("toposcope"):
            continue
        text = inspect.getdoc(value) or ""
        assert re.match(r"[A-Z].*", text), part
        assert text.split("\n\n")[0].rstrip().endswith((".", ":")), part
