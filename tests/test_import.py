"""`import toposcope` costs next to nothing."""

import subprocess
import sys

HEAVY = ("torch", "transformers", "ray", "matplotlib", "numba", "pandas", "sklearn", "scipy", "gudhi")


def _imported_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_the_package_alone_is_light():
    assert not _imported_by("import toposcope") & set(HEAVY)


def test_the_command_line_is_light():
    assert not _imported_by("import toposcope.cli.main") & set(HEAVY)


def test_the_list_of_commands_is_light():
    listing = "from toposcope.cli.main import toposcope; toposcope.main(['--help'], standalone_mode=False)"
    assert not _imported_by(listing) & set(HEAVY)


def test_every_public_name_resolves():
    import toposcope

    for name in toposcope.__all__:
        assert getattr(toposcope, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    import pytest

    import toposcope

    with pytest.raises(AttributeError, match="no attribute 'bogus'"):
        _ = toposcope.bogus
