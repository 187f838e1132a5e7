"""Folders of real trainers, each made once in a session."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.trainers.layouts import LAYOUTS, Layout
from toposcope.cli.main import main

Call = Callable[..., tuple[int, str]]
_FOLDERS: dict[str, Path] = {}


def pinned(package: str) -> str:
    """Return the version of a package that constraints.txt names; "" if it names none."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return next((line.partition("==")[2] for line in lines if line.partition("==")[0] == package), "")


def need(*packages: str) -> None:
    """Skip a test whose trainer is not installed, and say in which version it is tested."""
    for package in packages:
        if importlib.util.find_spec(package.replace("-", "_")) is None:
            pytest.skip(f"{package} is not installed: the tests use version {pinned(package) or 'any'}")


@contextlib.contextmanager
def quiet_trainer() -> Iterator[None]:
    """Let a trainer warn (of workers, devices, old names), in one thread: several wait for each other."""
    import torch

    for name in ("lightning.pytorch", "lightning", "transformers", "accelerate"):
        logging.getLogger(name).setLevel(logging.ERROR)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Layout], Path]:
    """Return the folder that a trainer wrote; it is trained at the first use."""

    def folder(layout: Layout) -> Path:
        need("torch", "transformers", *layout.packages)
        if layout.name not in _FOLDERS:
            with quiet_trainer():
                _FOLDERS[layout.name] = layout.make(tmp_path_factory.mktemp(layout.name) / layout.name)
        return _FOLDERS[layout.name]

    return folder


@pytest.fixture
def copied(written: Callable[[Layout], Path], tmp_path: Path) -> Callable[[Layout], Path]:
    """Return a copy of a trainer's folder, to be changed."""

    def folder(layout: Layout) -> Path:
        return Path(shutil.copytree(written(layout), tmp_path / "copied"))

    return folder


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command in this process; return its exit code and what it prints."""

    def run(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(one) for one in arguments])
        return int(ended.value.code or 0), " ".join(capsys.readouterr().out.split())

    return run


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test every layout, and mark those that are in the fast suite as well."""
    if "layout" in metafunc.fixturenames:
        marked = [
            pytest.param(one, id=one.name, marks=[pytest.mark.sample] if one.sampled else [])
            for one in LAYOUTS
        ]
        metafunc.parametrize("layout", marked)
