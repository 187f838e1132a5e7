"""A checkpoint of very many tensors, as a mixture of experts has: work grows with their number alone."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import toposcope as ts
from toposcope.files.formats import safetensors_file
from toposcope.files.formats.reader import TensorInfo
from toposcope.sources import names
from toposcope.sources._audit_alone import FAR, SIBLINGS, far_from_siblings
from toposcope.sources.audit_content import _median_without
from toposcope.sources.audit_evidence import TensorEvidence


def experts(count: int, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    moved = np.random.default_rng(seed)
    return {
        f"model.layers.{place // 8}.mlp.experts.{place % 8}.{kind}.weight": (
            random.standard_normal((8, 8)) * (1 + 0.01 * seed * moved.standard_normal((8, 8)))
        ).astype(np.float32)
        for place in range(count)
        for kind in ("gate_proj", "up_proj", "down_proj")
    }


@pytest.fixture
def mixture(tmp_path):
    for step in (0, 1):
        (tmp_path / f"step_{step}").mkdir()
        save_file(experts(100, step), tmp_path / f"step_{step}" / "model.safetensors")
    return tmp_path


def test_an_audit_reads_each_header_once(mixture, monkeypatch):
    parsed: list[str] = []
    header = safetensors_file._header
    monkeypatch.setattr(safetensors_file, "_header", lambda blob: parsed.append(blob.label) or header(blob))
    assert ts.audit(mixture).ok
    assert len(parsed) == len(set(parsed)) == 2


def test_a_file_that_changed_is_read_again(tmp_path):
    file = tmp_path / "step_1.safetensors"
    for size in (2, 3):
        save_file({"a.weight": np.ones((size, 4), np.float32)}, file)
        (checkpoint,) = series = ts.open_series(tmp_path)
        with series.reading(checkpoint) as reader:
            assert reader.infos()["a.weight"].shape == (size, 4)


def test_a_name_is_compared_with_few_rules(monkeypatch):
    tried: list[str] = []

    class Pattern:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self._pattern = pattern

        def match(self, name: str) -> re.Match[str] | None:
            tried.append(name)
            return self._pattern.match(name)

    compiled = names._compiled
    monkeypatch.setattr(
        names,
        "_compiled",
        lambda family: {
            key: [(Pattern(pattern), rule) for pattern, rule in near]
            for key, near in compiled(family).items()
        },
    )
    shapes = {name: values.shape for name, values in experts(20, 0).items()}
    names.family_of(shapes)
    assert len(tried) <= 3 * len(shapes)


@pytest.mark.parametrize("family", names.FAMILIES, ids=lambda family: family.name)
def test_every_rule_knows_the_names_of_its_pattern(family):
    first_rules = {}
    for rule in family.rules:
        first_rules.setdefault(re.sub(r"\{\w\}", "7", rule.pattern), rule)
    for name, rule in first_rules.items():
        assert names.place(family, f"module.model.{name}").rule == rule


@given(st.lists(st.integers(0, 5).map(lambda n: n / 3), max_size=9), st.integers(0, 5).map(lambda n: n / 3))
@settings(max_examples=200, deadline=None)
def test_a_median_without_one_value_is_that_of_the_others(values, one):
    rest = list(values)
    if one in rest:
        rest.remove(one)
    found = _median_without(np.sort(values), one)
    assert json.dumps(found) == json.dumps(float(np.median(rest)) if rest else float("nan"))


@given(st.lists(st.sampled_from([1.0, 1.5, 30.0, 900.0, 0.03, 0.001]), max_size=9))
@settings(max_examples=300, deadline=None)
def test_a_norm_is_held_against_those_of_most_siblings(sizes):
    tensors = {
        f"layers.{layer}.w": TensorEvidence(
            TensorInfo(f"layers.{layer}.w", (8, 8), np.dtype(np.float32)), norm=8 * size, largest=1.0
        )
        for layer, size in enumerate(sizes)
    }
    wanted = []
    for layer, size in enumerate(sizes):
        times = [size / other for place, other in enumerate(sizes) if place != layer]
        far = sum(not 1 / FAR < one < FAR for one in times)
        if len(sizes) > SIBLINGS and 2 * far > len(times):
            wanted.append((f"layers.{layer}.w", float(np.median(times)), len(times)))
    assert list(far_from_siblings(tensors)) == wanted
