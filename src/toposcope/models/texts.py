"""The texts whose representations are measured: a file, a folder's split, or a data set of the hub."""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toposcope.core.errors import InputError, MissingExtraError
from toposcope.core.wording import option

HUB_CORPORA = {
    "wikitext2": ("Salesforce/wikitext", "wikitext-2-raw-v1"),
    "wikitext103": ("Salesforce/wikitext", "wikitext-103-raw-v1"),
    "tinystories": ("roneneldan/TinyStories", None),
}
"""Short name -> (data set, configuration) on the hub."""

_CONVERTED = "refs/convert/parquet"
_TEXT_COLUMNS = ("text", "sentence")
_LOCAL_SPLIT = {"wiki.valid.tokens": "validation", "wiki.test.tokens": "test", "wiki.train.tokens": "train"}


@dataclass(frozen=True, slots=True)
class Texts:
    """An ordered set of texts and the hash of their content, so that rows can state what was read."""

    source: str
    items: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Return the first 16 hexadecimal digits of the SHA-256 of the texts."""
        return hashlib.sha256("\0".join(self.items).encode()).hexdigest()[:16]

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.items)


def load_texts(
    source: str,
    *,
    limit: int | None = None,
    counted_by: Sequence[str] = ("limit",),
    min_chars: int = 1,
    split: str = "validation",
) -> Texts:
    """Return the first `limit` texts of at least `min_chars` characters, in the order of the source.

    `source` is a file (one text per line; `.jsonl`, `.csv` and `.tsv` by their `text` or `sentence`
    column), a folder with WikiText's `wiki.*.tokens`, a short name in `HUB_CORPORA`, or
    `hf://datasets/ORG/NAME[:CONFIG]`. `counted_by` are the settings that an error names instead of `limit`.

    Raises
    ------
    InputError
        When the source is missing, is not UTF-8 text, or has too few texts of that length.
    """
    path = Path(source)
    if path.is_dir():
        lines = _lines_of(_split_file(path, split))
    elif path.is_file():
        lines = _lines_of(path)
    elif source in HUB_CORPORA or source.startswith("hf://datasets/"):
        lines = _from_hub(source, split, limit, min_chars)
    else:
        corpora = ", ".join(HUB_CORPORA)
        raise InputError(
            f"this is neither a file, a folder, hf://datasets/... nor one of {corpora}",
            argument="texts",
            value=source,
            remedy="check the name",
        )
    long_enough = [text for text in (line.strip() for line in lines) if len(text) >= min_chars]
    if limit is not None:
        if len(long_enough) < limit:
            raise InputError(
                f"there are {len(long_enough):,} texts of at least {min_chars:,} characters, but {limit} are "
                "needed",
                argument="texts",
                value=source,
                remedy=f"lower {' or '.join(map(option, (*counted_by, 'min_chars')))}, or give more texts",
            )
        long_enough = long_enough[:limit]
    if not long_enough:
        raise InputError(
            f"there is no text of at least {min_chars:,} characters",
            argument="texts",
            value=source,
            remedy="give longer texts",
        )
    return Texts(source, tuple(long_enough))


def _split_file(folder: Path, split: str) -> Path:
    for name, holds in _LOCAL_SPLIT.items():
        if holds == split and (folder / name).is_file():
            return folder / name
    raise InputError(f"folder {folder} has no {split} split: expected one of {', '.join(_LOCAL_SPLIT)}")


def _lines_of(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}): convert it first") from error
    if not text.strip():
        raise InputError(f"{path} is empty; give a file with a text on each line")
    suffix = path.suffix.lower()
    if suffix in {".jsonl", ".ndjson"}:
        return [
            _json_text(path, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()
        ]
    if suffix in {".csv", ".tsv"}:
        return _column(path, text, "\t" if suffix == ".tsv" else ",")
    return text.splitlines()


def _json_text(path: Path, number: int, line: str) -> str:
    try:
        record = json.loads(line)
        return str(record if isinstance(record, str) else record["text"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(f"{path}, line {number}: expected a JSON object with a 'text' field") from error


def _column(path: Path, text: str, delimiter: str) -> list[str]:
    # Tab-separated text, as in GLUE, has bare quotation marks.
    quoted = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    reader = csv.DictReader(text.splitlines(), delimiter=delimiter, quoting=quoted)  # type: ignore[call-overload]
    rows = list(reader)
    for name in _TEXT_COLUMNS:
        if rows and name in rows[0]:
            return [row[name] or "" for row in rows]
    raise InputError(f"{path} has no column named 'text' or 'sentence'; rename the column of the texts")


def _from_hub(source: str, split: str, limit: int | None, min_chars: int) -> list[str]:
    """Return the texts of a split in order, from the hub's own parquet conversion, part by part."""
    try:
        from huggingface_hub import HfApi, hf_hub_download
    except ImportError as error:
        raise MissingExtraError("huggingface_hub", "hf") from error
    if source in HUB_CORPORA:
        name, config = HUB_CORPORA[source]
    else:
        name, _, config = source.removeprefix("hf://datasets/").partition(":")
    endpoint = os.environ.get("HF_ENDPOINT")
    lines: list[str] = []
    try:
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # one line says what went wrong
        api = HfApi(endpoint=endpoint)
        # Offline this fails at once, where a listing would be tried six times.
        api.dataset_info(name, revision=_CONVERTED, timeout=30.0)
        files = api.list_repo_files(name, repo_type="dataset", revision=_CONVERTED)
        for part in _parts(files, name, config or "", split):
            file = hf_hub_download(name, part, repo_type="dataset", revision=_CONVERTED, endpoint=endpoint)
            lines += [text for text in _parquet_texts(Path(file), name) if len(text.strip()) >= min_chars]
            if limit is not None and len(lines) >= limit:
                break
    except InputError:
        raise
    except Exception as error:  # the hub client raises a dozen unrelated types when it is offline
        raise InputError(
            f"data set {name} cannot be read from the hub ({type(error).__name__}); download it elsewhere "
            f"and give the file: {option('texts')} FILE_OR_FOLDER"
        ) from error
    return lines if limit is None else lines[:limit]


def _parts(files: Sequence[str], name: str, config: str, split: str) -> list[str]:
    """Return a split's files, CONFIG/SPLIT/0000.parquet and on; without CONFIG the default or first one."""
    configs = sorted({file.split("/")[0] for file in files if file.endswith(".parquet")})
    if config and config not in configs:
        raise InputError(f"data set {name} has no configuration {config!r}; it has {', '.join(configs)}")
    chosen = config or ("default" if "default" in configs else next(iter(configs), ""))
    parts = sorted(file for file in files if re.fullmatch(rf"{re.escape(chosen)}/{split}/\d+\.parquet", file))
    if not parts:
        splits = sorted({file.split("/")[1] for file in files if file.startswith(f"{chosen}/")})
        raise InputError(
            f"data set {name} has no split {split!r}; it has {', '.join(splits) or 'no parquet files'}"
        )
    return parts


def _parquet_texts(file: Path, name: str) -> list[str]:
    import pyarrow.parquet as pq

    columns = [column for column in _TEXT_COLUMNS if column in pq.read_schema(file).names]
    if not columns:
        raise InputError(
            f"data set {name} has no column named {' or '.join(map(repr, _TEXT_COLUMNS))}",
            remedy="give a data set that has one",
        )
    return [str(text or "") for text in pq.read_table(file, columns=columns[:1]).column(0).to_pylist()]
