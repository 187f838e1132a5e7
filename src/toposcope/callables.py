"""Packages that are called like the public function of the same name."""

from __future__ import annotations

import importlib
import inspect
import sys
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """A package whose call is the call of one function.

    `toposcope.report` names a function and the package that it lives in: whichever is imported first, the
    name can be called and its modules can be reached.
    """

    def _function(self) -> Any:
        home, _, name = self.__dict__["_calls"].rpartition(".")
        return getattr(importlib.import_module(home), name)

    def __dir__(self) -> list[str]:
        """Return the package's names and the function's, so that `help` shows its signature."""
        return sorted({*super().__dir__(), self.__dict__["_calls"].rpartition(".")[2]})

    def __getattr__(self, name: str) -> Any:
        """Return the function under its name."""
        calls = self.__dict__.get("_calls", "")
        if not name.startswith("_") and name == calls.rpartition(".")[2]:
            return self._function()
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the function."""
        return self._function()(*arguments, **options)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """The function's help, which is what `help` is asked for under this name."""
        return inspect.getdoc(self._function()) or ""

    @property
    def __signature__(self) -> inspect.Signature:
        """The function's signature, for editors and `help`."""
        return inspect.signature(self._function())


def make_callable(package: str, function: str) -> None:
    """Let the imported `package` be called as `function`, the dotted name of one."""
    module = sys.modules[package]
    module.__dict__["_calls"] = function
    module.__class__ = CallablePackage
