"""Series on the Hugging Face hub: revisions are steps, fetched one at a time and removed after use."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from toposcope.core.errors import MissingExtraError, SourceError
from toposcope.core.types import Checkpoint, RunRecord
from toposcope.core.wording import option
from toposcope.files.blobs import LocalFolder
from toposcope.files.formats.reader import Reader
from toposcope.files.formats.registry import is_weights_file
from toposcope.files.labels import step_of, tokens_of
from toposcope.logs.metrics import empty
from toposcope.sources.discover import Entry, Source, open_folder

SCHEME = "hf://"
DISK_VARIABLE = "TOPOSCOPE_HUB_DISK_GB"
DISK_GB = 100.0
"""How much disk space the files of one step may take, unless the environment sets another limit."""

_SIDE_FILES = (
    "config.json",
    "adapter_config.json",
    "model.safetensors.index.json",
    "pytorch_model.bin.index.json",
)
_MODEL_FILES = re.compile(
    r"(tokenizer.*|special_tokens_map\.json|vocab\..*|merges\.txt|generation_config\.json|spiece\.model|added_tokens\.json)"
)
_REPOSITORY = re.compile(r"\w[\w.\-]*(/\w[\w.\-]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a revision: size and hash (SHA-256 for large files, git's SHA-1 for small ones)."""

    name: str
    size: int
    tag: str
    large: bool


class Revision:
    """One revision of a model repository; listing queries the hub once, reading fetches the files."""

    def __init__(self, repository: str, revision: str) -> None:
        self.repository, self.revision = repository, revision
        self.label = f"{SCHEME}{repository}@{revision}"
        self._folder: Path | None = None
        self._users = 0

    @cached_property
    def files(self) -> tuple[HubFile, ...]:
        """Every file of the revision."""
        info = _ask(
            self.label, _api().model_info, self.repository, revision=self.revision, files_metadata=True
        )
        return tuple(_file(self.label, sibling) for sibling in info.siblings or ())

    def weights(self) -> list[HubFile]:
        """Return the files that hold the weights: safetensors if there are any."""
        top = [file for file in self.files if "/" not in file.name and is_weights_file(file.name)]
        safe = [file for file in top if file.name.endswith(".safetensors")]
        return [file for file in safe or top if file.name.endswith((".safetensors", ".bin", ".pt"))]

    def identity(self) -> dict[str, str]:
        """Return the hashes of the weight files as the hub states them, without fetching the files."""
        return {file.name: file.tag for file in self.weights()}

    def open(self) -> Reader:
        """Fetch the weights and open them; `release` must follow, whether this succeeds or not."""
        self.hold()
        weights = self.weights()
        if not weights:
            raise SourceError(
                f"{self.label}: this revision contains no weights (.safetensors or .bin)",
                remedy="choose another revision",
            )
        side = [file for file in self.files if file.name in _SIDE_FILES]
        return open_folder(LocalFolder(self.fetch([*side, *weights])))

    def hold(self) -> None:
        """Keep what is fetched from now on until `release` has been called equally often."""
        self._users += 1

    def fetch(self, files: Sequence[HubFile]) -> Path:
        """Fetch files into a temporary folder, which the last `release` removes."""
        if self._folder is None:
            check_room(self.label, sum(file.size for file in files))
            self._folder = Path(tempfile.mkdtemp(prefix="toposcope-hub-"))
        for file in files:
            if not (self._folder / file.name).is_file():
                self._fetch(file, self._folder)
        return self._folder

    def _fetch(self, file: HubFile, folder: Path) -> None:
        from huggingface_hub import hf_hub_download

        label = f"{self.label}/{file.name}"
        path = _ask(
            label,
            hf_hub_download,
            self.repository,
            file.name,
            revision=self.revision,
            local_dir=folder,
            endpoint=os.environ.get("HF_ENDPOINT"),
        )
        if _tag_of(Path(path), file.large) != file.tag:
            Path(path).unlink()
            raise SourceError(
                f"{label}: the downloaded file does not have the hash that the hub states; try again"
            )

    def release(self) -> None:
        """Remove the fetched files once nothing reads them any more."""
        self._users -= 1
        if self._users <= 0 and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder, self._users = None, 0


def _file(label: str, sibling: Any) -> HubFile:
    name = str(sibling.rfilename)
    if name.startswith("/") or ".." in name.split("/"):
        raise SourceError(
            f"{label}: {name!r} points outside the repository and is not read",
            remedy="use another repository",
        )
    large = sibling.lfs is not None
    tag = sibling.lfs.sha256 if large else sibling.blob_id
    return HubFile(name, int(sibling.size or 0), str(tag or ""), large)


def _tag_of(path: Path, large: bool) -> str:
    digest = (
        hashlib.sha256()
        if large
        else hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    )
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def check_room(label: str, size: int) -> None:
    """Refuse to fetch more than the disk limit allows, or than fits on the disk."""
    text = os.environ.get(DISK_VARIABLE, "")
    try:
        cap = float(text) if text else DISK_GB
    except ValueError as error:
        raise SourceError(
            f"{DISK_VARIABLE}={text!r} is not a number of gigabytes; set it to one, such as 20"
        ) from error
    if size > cap * 1e9:
        raise SourceError(
            f"{label}: needs {size / 1e9:.1f} GB on disk, but the limit is {cap:g} GB; raise {DISK_VARIABLE}"
        )
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if size > free - 10**9:
        raise SourceError(
            f"{label}: needs {size / 1e9:.1f} GB and {tempfile.gettempdir()} has {free / 1e9:.1f}; set "
            "TMPDIR to a folder with more space"
        )


def _api() -> Any:
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise MissingExtraError("huggingface_hub", "hf") from error
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT"))


def _ask(label: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call the hub; every error becomes one line."""
    from huggingface_hub import errors

    try:
        return call(*arguments, **options)
    except errors.GatedRepoError as error:
        raise SourceError(f"{label}: access is gated; accept its terms on the hub and log in") from error
    except errors.RevisionNotFoundError as error:
        raise SourceError(
            f"{label}: there is no such revision; list them with {option('revisions')} '*'"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise SourceError(
            f"{label}: there is no such repository, or it is private; check the name"
        ) from error
    except errors.RemoteEntryNotFoundError as error:
        raise SourceError(
            f"{label}: the revision does not have this file", remedy="choose another revision"
        ) from error
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "?")
        raise SourceError(f"{label}: the hub answered with status {status}; try again later") from error
    except (OSError, ValueError, RuntimeError, EOFError, _http_error()) as error:
        text = " ".join(str(error).split())[:160]
        raise SourceError(
            f"{label}: the hub cannot be read ({type(error).__name__}: {text}); without a network, "
            "open a local folder with the files"
        ) from error


def _http_error() -> type[Exception]:
    """Return the base class of the client's transport errors: that of httpx, or of the library it uses."""
    from huggingface_hub import errors

    http_error = getattr(errors, "HTTPError", None)
    if http_error is None:
        try:
            import httpx

            http_error = httpx.HTTPError
        except ImportError:
            http_error = OSError
    return http_error


def parse(uri: str) -> tuple[str, str | None]:
    """Return repository and revision of a hub address.

    >>> parse("hf://EleutherAI/pythia-14m@step1000")
    ('EleutherAI/pythia-14m', 'step1000')
    """
    repository, _, revision = uri.removeprefix(SCHEME).strip("/").partition("@")
    if not _REPOSITORY.fullmatch(repository):
        raise SourceError(f"{uri}: is not a hub address; write hf://ORG/NAME or hf://ORG/NAME@REVISION")
    return repository, revision or None


def discover_hub(uri: str, revisions: str | Sequence[str] | None) -> list[Source]:
    """Return the run in a hub repository: one checkpoint per chosen revision.

    Without a choice, these are the revisions whose names state a step, or `main` if none does.
    """
    repository, named = parse(uri)
    wanted = [named] if named else [revisions] if isinstance(revisions, str) else list(revisions or ())
    if wanted and not any(set(name) & set("*?[") for name in wanted):
        chosen = wanted
    else:
        chosen = _choose(uri, _branches(uri, repository), wanted)
    run = repository.rsplit("/", 1)[-1]
    entries = tuple(_entry(repository, name, run) for name in chosen)
    described = RunRecord(run, uri=f"{SCHEME}{repository}", parameters=0)
    return [Source(described, tuple(sorted(entries, key=lambda entry: entry.checkpoint.step)), empty)]


def _branches(uri: str, repository: str) -> list[str]:
    refs = _ask(uri, _api().list_repo_refs, repository)
    return list(dict.fromkeys([ref.name for ref in refs.branches] + [ref.name for ref in refs.tags]))


def _choose(uri: str, have: list[str], wanted: list[str]) -> list[str]:
    if wanted:
        chosen = [name for name in have if any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted)]
        if not chosen:
            raise SourceError(f"{uri}: no revision fits {', '.join(wanted)}; there are {', '.join(have[:6])}")
        return chosen
    return [name for name in have if step_of(name) is not None] or ["main"]


def _entry(repository: str, name: str, run: str) -> Entry:
    revision = Revision(repository, name)
    checkpoint = Checkpoint(run, step_of(name) or 0, tokens_of(name), revision.label, name)
    return Entry(checkpoint, revision.open, revision.release, revision.hold, revision.identity)


@contextmanager
def model_folder(checkpoint: Checkpoint) -> Iterator[Path]:
    """Fetch a hub checkpoint with its configuration and tokenizer; the folder is removed at the end."""
    repository, named = parse(checkpoint.uri)
    revision = Revision(repository, checkpoint.revision or named or "main")
    revision.hold()
    try:
        side = [f for f in revision.files if f.name in _SIDE_FILES or _MODEL_FILES.fullmatch(f.name)]
        yield revision.fetch([*side, *revision.weights()])
    finally:
        revision.release()


def describe(source: Source) -> Mapping[str, Any]:
    """Return the configuration of a hub run's last revision, without fetching weights."""
    entry = source.entries[-1]
    repository, _ = parse(entry.checkpoint.uri)
    revision = Revision(repository, entry.checkpoint.revision or "main")
    configs = [file for file in revision.files if file.name == "config.json"]
    if not configs:
        return {}
    revision.hold()
    try:
        path = revision.fetch(configs) / "config.json"
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise SourceError(
            f"{revision.label}/config.json: is not valid JSON ({error})", remedy="choose another revision"
        ) from error
    finally:
        revision.release()
    return content if isinstance(content, dict) else {}
