"""What can go wrong with a call or an input, each with a one-line message that names the remedy.

Every class here is a `ValueError`, so library users catch one thing; the command line prints the
message on one line and exits with 2, or with 1 for what was begun and broke off.
"""


class InputError(ValueError):
    """The input or the call is wrong; nothing was done."""


class SourceError(InputError):
    """A checkpoint, a tensor or a series cannot be read as what it claims to be."""


class StoreError(InputError):
    """A results folder is missing, from another schema, or from another recipe."""


class RecipeError(InputError):
    """A recipe has an unknown key, a missing value or a value of the wrong type."""


class BrokenOffError(InputError):
    """The work was begun and could not be finished; what was done is kept, and repeating goes on."""


class MissingExtraError(InputError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} is not installed; install it with: pip install 'toposcope[{extra}]'")
