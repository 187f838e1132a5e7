"""The schemas of the docs: what commands print fits them, and the store's is that of the code."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import numpy as np
import pyarrow.parquet as pq
import pytest

import toposcope as ts

FOLDER = Path(__file__).parents[1] / "docs" / "schema"


def _maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schema_make", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKE = _maker()
SCHEMAS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_is_one_and_the_page_offers_it(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    assert f"<schema/{name}.json>" in (FOLDER.parent / "schema.md").read_text(encoding="utf-8")


def test_the_stores_schema_is_that_of_its_code() -> None:
    assert SCHEMAS["store"] == MAKE.store_schema()


def _valid(name: str, value: object) -> list[str]:
    found = jsonschema.Draft202012Validator(SCHEMAS[name]).iter_errors(value)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def test_a_check_fits_its_schema_and_a_changed_one_does_not(tmp_path: Path) -> None:
    rows = "\n".join(f"step {n} loss {3 + 5 * n**-0.5:.4f}" for n in range(1, 121))
    (tmp_path / "other.log").write_text(rows)
    answer: Any = MAKE.printed(["check", str(tmp_path / "other.log")])
    assert _valid("check", answer) == []
    answer["runs"][0]["level"] = 3
    del answer["ok"]
    assert len(_valid("check", answer)) == 2


def test_a_stores_rows_fit_the_schema(tmp_path: Path) -> None:
    weights = {step: {"fc.weight": np.eye(4) * (1.0 + step)} for step in (0, 10)}
    store = ts.measure(weights, tmp_path / "store", features="baselines")
    tables = {name: store.path / name for name in SCHEMAS["store"]["properties"]}
    rows = {name: pq.read_table(place).to_pylist() for name, place in tables.items() if place.is_dir()}
    assert {"runs", "features", "catalogue"} <= set(rows)
    for name, part in SCHEMAS["store"]["properties"].items():
        for row in rows.get(name, []):
            jsonschema.validate(row, part | {"additionalProperties": False})


WITHOUT_A_SENTENCE = {"explain", "export", "store", "synth", "train"}
"""What these print is a definition or a table."""


@pytest.mark.parametrize("name", sorted(set(SCHEMAS) - WITHOUT_A_SENTENCE))
def test_the_first_sentence_of_every_command_is_its_answer(name: str) -> None:
    fields = SCHEMAS[name]["properties"]
    assert fields["answer"] == {"type": "string"}
    assert "answer" in SCHEMAS[name]["required"] or name == "forecast"
    assert not {"line", "headline", "answers"} & set(fields)


@pytest.mark.slow
def test_what_every_command_prints_fits_its_schema(tmp_path: Path) -> None:
    printed = MAKE.outputs(tmp_path)
    assert set(printed) | {"store"} == set(SCHEMAS)
    wrong = {
        name: errors for name, found in printed.items() for one in found if (errors := _valid(name, one))
    }
    assert wrong == {}
