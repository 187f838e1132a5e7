import json
import sys
from importlib import metadata

import pytest

from toposcope.core.errors import MissingExtraError, install_command


class _Distribution:
    def __init__(self, origin):
        self.origin = origin

    def read_text(self, name):
        assert name == "direct_url.json"
        return None if self.origin is None else json.dumps(self.origin)


@pytest.fixture
def installed(monkeypatch):
    def as_from(origin):
        monkeypatch.setattr(metadata, "distribution", lambda name: _Distribution(origin))

    return as_from


def test_a_checkout_is_named_by_its_path_and_pins(installed, tmp_path):
    (tmp_path / "constraints.txt").write_text("torch==0\n")
    installed({"url": tmp_path.as_uri(), "dir_info": {"editable": True}})
    wanted = f"{sys.executable} -m pip install -e '{tmp_path}[hf]' -c {tmp_path}/constraints.txt"
    assert install_command("hf") == wanted


def test_a_released_package_is_named_by_its_name(installed):
    installed(None)
    assert install_command("ray") == f"{sys.executable} -m pip install 'toposcope[ray]'"


def test_what_is_missing_is_one_line(installed):
    installed(None)
    with pytest.raises(
        ValueError, match=r"^torch is not installed; install it with: .*'toposcope\[train\]'$"
    ):
        raise MissingExtraError("torch", "train")
