"""The schemas beside this file, made from what every command prints with `--json`.

Each command runs on small data (`python docs/schema/make.py`). Of one place in several outputs the schema
has the types that were seen, and as required the fields that were always there. A cell of a table may be null
wherever it is a number or a text. A test runs the same commands and holds their outputs against the files, so
that a field that goes or changes is noticed.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from toposcope.study.analysis import DEFAULT_TABLES

FOLDER = Path(__file__).parent
DRAFT = "https://json-schema.org/draft/2020-12/schema"
MAPS = {"by_probe", "examined", "notes", "renamed", "theory", "true_rates"}
"""Objects whose keys are names of runs, columns or quantities: their values share one schema."""
OPEN = {"config", "data", "numbers"}
"""Objects that differ from finding to finding: any fields."""
TITLES = {
    "advice": "forecast --advise",
    "clouds": "cloud FILE OTHER",
    "law": "analyze --law",
    "plan": "weights --plan",
    "rates": "analyze --calibrate",
    "sweep": "weights, embeddings, landscape and optimizer",
}
"""Of which command a schema is, where that is not its name."""
NAMES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
}

Schema = dict[str, Any]


def seen(value: object, *, cell: bool = False, name: str = "") -> Schema:
    """Return the schema of one value; `cell` where it is in a table, so that it may be null elsewhere."""
    if isinstance(value, dict):
        kind: str | list[str] = ["null", "object"] if cell and name else "object"
        if name in OPEN:
            return {"type": kind}
        parts = {key: seen(part, cell=cell, name=key) for key, part in value.items()}
        if name in MAPS:
            return {"type": kind, "additionalProperties": _all(parts.values())}
        return {"type": kind, "properties": parts, "required": sorted(parts)}
    if isinstance(value, list):
        table = bool(value) and isinstance(value[0], dict)
        items = _all(seen(part, cell=cell or table) for part in value)
        return {"type": "array", "items": items} if items else {"type": "array"}
    kinds = {NAMES[type(value)]}
    return {"type": _kinds(kinds | {"null"} if cell else kinds)}


def joined(first: Schema, second: Schema) -> Schema:
    """Return the schema that the values of both satisfy."""
    if not first or not second:
        return first or second
    kinds = _kinds(_set(first) | _set(second))
    made: Schema = {"type": kinds}
    if "properties" in first or "properties" in second:
        one, other = first.get("properties", {}), second.get("properties", {})
        made["properties"] = {key: joined(one.get(key, {}), other.get(key, {})) for key in one | other}
        needed = [set(part["required"]) for part in (first, second) if "required" in part]
        made["required"] = sorted(set.intersection(*needed))
    for word in ("items", "additionalProperties"):
        both = [part[word] for part in (first, second) if word in part]
        if both:
            made[word] = joined(*both) if len(both) == 2 else both[0]
    return made


def _all(parts: Iterable[Schema]) -> Schema:
    made: Schema = {}
    for part in parts:
        made = joined(made, part)
    return made


def _set(part: Schema) -> set[str]:
    kinds = part["type"]
    return {kinds} if isinstance(kinds, str) else set(kinds)


def _kinds(kinds: set[str]) -> str | list[str]:
    kept = sorted(kinds - {"integer"} if "number" in kinds else kinds)
    return kept[0] if len(kept) == 1 else kept


def printed(words: Sequence[str]) -> object:
    """Return what a command prints with `--json`, as data; the exit code may be 0 or 1."""
    from toposcope.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    code: object = None
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main([*words, "--json"])
    except SystemExit as ended:
        code = ended.code
    if code not in (0, 1):
        raise RuntimeError(f"{words}: {err.getvalue()}")
    data = json.loads(out.getvalue())
    # an error is JSON as well: made into a schema, it would stand for the command's answer
    if isinstance(data, dict) and {"error", "exit_code"} == set(data):
        raise RuntimeError(f"{words}: {data['error']}")
    return data


def _logs(folder: Path) -> None:
    generator = np.random.default_rng(0)
    for name, level in (("a", 2.0), ("b", 2.1), ("c", 2.2), ("d", 2.3)):
        loss = [level + 5 * n**-0.5 + 0.02 * generator.normal() for n in range(1, 401)]
        rows = "\n".join(f"{n},{value:.4f},0.001" for n, value in enumerate(loss, 1))
        (folder / f"{name}.csv").write_text(f"step,loss,learning_rate\n{rows}\n")
    for place, names in (("seeds", "cd"), ("others", "ab")):
        (folder / place).mkdir()
        for name in names:
            (folder / place / f"{name}.csv").write_text((folder / f"{name}.csv").read_text())
    broken = [*loss[:300], *([float("nan")] * 20)]
    rows = "\n".join(f"step {n} loss {value}" for n, value in enumerate(broken, 1))
    (folder / "broken.log").write_text(rows)
    step = np.arange(0, 3000, 100)
    table = [f"{s},{5 * (s + 100.0) ** -0.3},{np.log(s + 50) + 0.1 * generator.normal()}" for s in step]
    (folder / "table.csv").write_text("step,loss,mine\n" + "\n".join(table))
    models = [f"{n},{1.6 * (n / 1e6) ** -0.34 + 2.4}" for n in (1e6, 4e6, 16e6, 64e6, 256e6)]
    (folder / "models.csv").write_text("parameters,loss\n" + "\n".join(models))
    sizes = [
        f"r{size},{n},{1.8 + 20 * size**-0.3 + 3 * n**-0.5 + 0.01 * generator.normal():.4f},{size},{64 * n}"
        for size, last in ((1000, 400), (4000, 400), (16000, 400), (64000, 200))
        for n in range(1, last + 1)
    ]
    (folder / "sizes.csv").write_text("run,step,loss,parameters,tokens\n" + "\n".join(sizes))
    angles = generator.uniform(0, 2 * np.pi, 60)
    np.save(folder / "ring.npy", np.column_stack([np.cos(angles), np.sin(angles)]))
    np.save(folder / "noise.npy", generator.normal(size=(30, 3)))


def _hurt(folder: Path) -> str:
    """Write a run whose last checkpoint holds a NaN and whose one before is a copy."""
    from safetensors.numpy import save_file

    place = folder / "hurt"
    place.mkdir()
    weights = np.random.default_rng(0).normal(size=(16, 8)).astype("float32")
    for step in range(0, 1000, 100):
        weights = weights * np.float32(1.01) if step != 800 else weights
        values = weights if step != 900 else np.where(weights > 1.5, np.float32(np.nan), weights)
        save_file({"layers.0.mlp.fc1.weight": values}, place / f"step_{step:06d}.safetensors")
    return str(place)


def _with_moments(folder: Path) -> str:
    """Write a run whose checkpoints hold an optimiser; the last one's count of updates is 0."""
    import torch

    place = folder / "moments"
    place.mkdir()
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in (1, 2, 3):
        optimizer.zero_grad()
        model(torch.ones(1, 8)).sum().backward()
        optimizer.step()
        for fields in optimizer.state.values():
            fields["step"].fill_(step % 3)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": step}
        torch.save(state, place / f"step_{step}.pt")
    return str(place)


def _tuned(folder: Path) -> tuple[str, str]:
    """Write a model of one matrix, and a LoRA adapter of it."""
    from safetensors.numpy import save_file

    generator = np.random.default_rng(0)
    name = "model.layers.0.self_attn.q_proj"
    base, adapter = folder / "base.safetensors", folder / "adapter"
    adapter.mkdir()
    save_file({f"{name}.weight": generator.normal(size=(16, 16)).astype("float32")}, base)
    parts = {"A": generator.normal(size=(2, 16)), "B": generator.normal(size=(16, 2))}
    save_file(
        {f"base_model.model.{name}.lora_{one}.weight": part.astype("float32") for one, part in parts.items()},
        adapter / "adapter_model.safetensors",
    )
    (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 2}))
    return str(base), str(adapter)


def _demo(folder: Path) -> object:
    from toposcope.studies import demo

    few = {"steps": 4, "checkpoint_every": 2, "warmup_steps": 1, "models": ["tiny-3k"]}
    with mock.patch.object(demo, "run_demo", partial(demo.run_demo, overrides=few)):
        return printed(["demo", "--jobs", "1", "--out", str(folder / "demo")])


def outputs(folder: Path, names: Sequence[str] = ()) -> dict[str, list[object]]:
    """Return what each command, or those of these names, prints on small data in `folder`.

    All but check, forecast, cloud and law need the runs that train makes, and most need the store of sweep.
    """
    _logs(folder)
    at = lambda name: str(folder / name)  # noqa: E731
    few = [word for one in ("steps=6", "checkpoint_every=2", "warmup_steps=1") for word in ("--set", one)]
    train = ["train", "--recipe", "demo", "--models", "tiny-3k", "--seeds", "1,2", "--jobs", "1", *few]
    sweep = ["weights", at("runs"), "--features", "baselines,neural_persistence", "--out", at("store")]
    again = [*sweep[:1], at("runs/tiny-3k-seed2"), *sweep[2:-1], at("other")]
    alone = ["forecast", at("a.csv"), "--horizon", "1000"]
    clouds = ("ring.npy", "noise.npy")
    check = [["check", at(name), "--horizon", "1000"] for name in ("a.csv", "broken.log")]
    check += [["check", at("a.csv")], ["check", *map(at, ("a.csv", "b.csv", "c.csv", "d.csv"))]]
    check += [["check", moments := _with_moments(folder)]]
    run = f"{at('runs')}/tiny-3k-seed1/checkpoints/step_00000"
    made: dict[str, Callable[[], list[object]]] = {
        "check": lambda: [printed(one) for one in check],
        "forecast": lambda: [
            printed(alone),
            printed([*alone, "--siblings", at("b.csv"), "--methods", "all"]),
            printed(["forecast", *map(at, ("a.csv", "b.csv", "c.csv", "d.csv"))]),
        ],
        "explain": lambda: [printed(["explain", "loss-spike"]), printed(["explain", "rescaled-tensor"])],
        "cloud": lambda: [printed(["cloud", at(name), "--draws", "19"]) for name in clouds],
        "clouds": lambda: [
            printed(["cloud", *map(at, clouds), "--draws", "99"]),
            printed(["cloud", at("ring.npy"), at("ring.npy"), "--paired", "--distance", "rtd-lite"]),
        ],
        "train": lambda: [printed([*train, "--out", at("runs")]), printed([*train, "--out", at("runs")])],
        "audit": lambda: [printed(["audit", at("runs")]), printed(["audit", _hurt(folder)]),
                          printed(["audit", moments])],
        "average": lambda: [
            printed(["average", at("runs/tiny-3k-seed1")]),
            printed(["average", at("runs/tiny-3k-seed1"), "--unscored", "--out", at("mean")]),
        ],
        "sweep": lambda: [printed(sweep), printed(sweep), printed(again)],
        "compare": lambda: [
            printed(["compare", f"{run}0.safetensors", f"{run}6.safetensors"]),
            printed(["compare", at("a.csv"), at("b.csv"), "--siblings", at("seeds")]),
            printed(["compare", at("a.csv"), at("b.csv")]),
            printed(["compare", at("seeds"), at("others")]),
            printed(["compare", at("seeds"), at("others"), "--horizon", "1000"]),
            printed(["compare", *_tuned(folder)]),
        ],
        "analyze": lambda: [
            printed(["analyze", at("table.csv")]),
            printed(["analyze", at("store"), *(f"--table={name}" for name in DEFAULT_TABLES)]),
        ],
        "law": lambda: [
            printed(["analyze", at("models.csv"), "--law", law]) for law in ("power", "offset")
        ],
        "advice": lambda: [
            printed(["forecast", at("sizes.csv"), "--advise", "--budget", "1e12", "--horizon", "400"])
        ],
        "rates": lambda: [printed(["analyze", at("table.csv"), "--calibrate", "--draws", "100"])],
        "plan": lambda: [printed([*sweep, "--plan"]), printed([sweep[0], moments, *sweep[2:], "--plan"])],
        "report": lambda: [printed(["report", at("table.csv"), "--out", at("page")])],
        "export": lambda: [printed(["export", at("store"), "--out", at("tables")])],
        "merge": lambda: [printed(["merge", at("store"), at("other"), "--out", at("both")])],
        "watch": lambda: [
            printed(["watch", at(name), "--once", "--rest", "0", "--out", at(f"watched-{name}")])
            for name in ("runs", "hurt", "moments")
        ],
        "synth": lambda: [
            printed(["synth", "--widths", "4,8,0", "--updates", "60", "--out", at("known")]),
        ],
        "demo": lambda: [_demo(folder)],
    }  # fmt: skip
    return {name: make() for name, make in made.items() if not names or name in names}


def store_schema() -> Schema:
    """Return the store's tables, each as the schema of one of its rows."""
    import pyarrow as pa

    from toposcope.store.schema import SCHEMA_VERSION, TABLES

    def kind(of: pa.DataType) -> Schema:
        if pa.types.is_list(of):
            return {"type": ["array", "null"], "items": kind(of.value_type)}
        names = {"string": "string", "double": "number", "bool": "boolean"}
        return {"type": [names.get(str(of), "integer"), "null"], "description": str(of)}

    return {
        "$schema": DRAFT,
        "title": "the tables of a store",
        "description": f"Schema version {SCHEMA_VERSION}. For each table a row of its parquet files.",
        "type": "object",
        "properties": {
            name: {"type": "object", "properties": {field.name: kind(field.type) for field in table}}
            for name, table in TABLES.items()
        },
    }


def schema_of(name: str, found: Sequence[object]) -> Schema:
    """Return a command's schema: what all of its outputs have in common, and what some have."""
    said = TITLES.get(name, name)
    return {"$schema": DRAFT, "title": f"toposcope {said}, --json", **_said(_all(seen(one) for one in found))}


def _said(part: Schema) -> Schema:
    """Return a schema without what is not known: where only null was seen, anything may stand."""
    if part.get("type") == "null":
        return {}
    made = dict(part)
    if "properties" in part:
        made["properties"] = {name: _said(one) for name, one in part["properties"].items()}
    for word in ("items", "additionalProperties"):
        if word in part:
            made[word] = _said(part[word])
    return made


def main(names: Sequence[str] = (), folder: Path = FOLDER) -> None:
    """Write every schema, or those of these names and the store's."""
    with tempfile.TemporaryDirectory() as place:
        made = {name: schema_of(name, found) for name, found in outputs(Path(place), names).items()}
    for name, schema in {**made, "store": store_schema()}.items():
        (folder / f"{name}.json").write_text(json.dumps(schema, indent=1) + "\n", encoding="utf-8")
        print(name, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
