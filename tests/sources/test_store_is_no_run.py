"""A store that lies among the runs it was made of."""

import numpy as np

import toposcope as ts
from toposcope.sources import open_series


def test_the_store_of_a_watch_beside_its_run_is_no_run(tmp_path):
    from safetensors.numpy import save_file

    for place in ("a", "a-watch/watch/held/step_2.safetensors-1"):
        (tmp_path / place).mkdir(parents=True)
        save_file({"fc.weight": np.eye(8, dtype=np.float32)}, tmp_path / place / "step_2.safetensors")
    (tmp_path / "a-watch" / "store.json").write_text("{}")
    (tmp_path / "a-watch" / "watch" / "events.jsonl").write_text('{"step": 2, "loss": 3.0}\n')
    assert open_series(str(tmp_path)).names == ("a",)
    assert [run.run for run in ts.check(tmp_path).runs] == ["a"]
