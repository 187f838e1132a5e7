"""Training text, always in two parts: a training part and a held-out part."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from toposcope.core.errors import InputError, MissingExtraError
from toposcope.core.wording import option
from toposcope.training._installed import NAME, installed_text

WIKITEXT_REPOSITORY = "Salesforce/wikitext"
WIKITEXT_REVISION = "refs/convert/parquet"
_WIKITEXT_CONFIG = "wikitext-2-raw-v1"  # without <unk>, as the weight-space paper's models saw it
_SUFFIXES = (".txt", ".tokens", ".md")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Text in two parts; `sha256` identifies the content, so a run notices a change."""

    name: str
    train: str
    heldout: str

    @property
    def sha256(self) -> str:
        """Return the hash of both parts."""
        digest = hashlib.sha256(self.train.encode("utf-8", "surrogatepass"))
        digest.update(b"\0heldout\0")
        digest.update(self.heldout.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def load_corpus(name: str, *, heldout_fraction: float = 0.1) -> Corpus:
    """Return the corpus called `name`: "python-docs", "installed", "wikitext2", or a text file or folder.

    "installed" is sources and documentation of the packages of this Python (`training.installed`).
    "wikitext2" reads the hub's parquet conversion of the dataset; "wikitext2@REVISION" pins a commit of it.
    A folder with `wiki.train.tokens` and `wiki.valid.tokens` has its own split; in any other folder, the
    `.txt`, `.tokens` and `.md` files are joined in sorted order. Without a split, the last `heldout_fraction`
    of the characters is held out.

    Raises
    ------
    InputError
        If the corpus does not exist, contains no text, or cannot be downloaded.
    """
    if name == "python-docs":
        return _split(name, _python_docs(), heldout_fraction)
    if name == NAME:
        return _installed(heldout_fraction)
    if name == "wikitext2" or name.startswith("wikitext2@"):
        return _wikitext2(name.partition("@")[2] or WIKITEXT_REVISION)
    path = Path(name).expanduser()
    if path.is_dir():
        return _folder(path, heldout_fraction)
    if path.is_file():
        return _split(path.name, _read(path), heldout_fraction)
    raise InputError(
        "this is neither python-docs, installed, wikitext2, nor an existing file or folder",
        argument="corpus",
        value=name,
        remedy="give one of these",
    )


def _split(name: str, text: str, heldout_fraction: float) -> Corpus:
    cut = len(text) - round(len(text) * heldout_fraction)
    if not 0 < cut < len(text):
        raise InputError(
            f"corpus {name} has {len(text):,} characters, too few for a training part and a held-out part; "
            "give a longer text"
        )
    return Corpus(name, text[:cut], text[cut:])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"corpus file {path} is not UTF-8 text (byte {error.start}); convert it first"
        ) from None


def _folder(path: Path, heldout_fraction: float) -> Corpus:
    train, valid = path / "wiki.train.tokens", path / "wiki.valid.tokens"
    if train.is_file() and valid.is_file():
        return Corpus(path.name, _read(train), _read(valid))
    files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
    if not files:
        raise InputError(
            f"corpus folder {path} contains no {', '.join(_SUFFIXES)} file; give a folder with some"
        )
    return _split(path.name, "\n\n".join(_read(file) for file in files), heldout_fraction)


def _missing(why: str) -> InputError:
    return InputError(why, remedy=f"give a file or a folder of text instead: {option('corpus')} PATH")


def _python_docs() -> str:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise _missing("this Python ships without pydoc_data.topics") from None
    return "\n\n".join(topics[key] for key in sorted(topics))


def _installed(heldout_fraction: float) -> Corpus:
    train, heldout = installed_text(heldout_fraction)
    if not train or not heldout:
        raise _missing("this Python has too few files of installed packages")
    return Corpus(NAME, train, heldout)


def _wikitext2(revision: str) -> Corpus:
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise MissingExtraError("huggingface_hub", "hf") from None
    import pyarrow.parquet as pq

    parts = []
    for split in ("train", "validation"):
        try:
            file = hf_hub_download(
                WIKITEXT_REPOSITORY,
                f"{_WIKITEXT_CONFIG}/{split}/0000.parquet",
                repo_type="dataset",
                revision=revision,
            )
        except Exception as error:  # the hub's error classes differ between its versions
            raise _missing(
                f"corpus wikitext2 could not be fetched from the Hugging Face hub ({type(error).__name__})"
            ) from None
        parts.append("".join(pq.read_table(file, columns=["text"]).column("text").to_pylist()))
    return Corpus("wikitext2", parts[0], parts[1])
