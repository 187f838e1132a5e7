"""The page over HTTP: what it answers, what it refuses, and what travels when a store grows."""

from __future__ import annotations

import json
import socket
import time
import urllib.parse
import urllib.request

import numpy as np
import pytest
from starlette.testclient import TestClient

import toposcope as ts
from tests.patience import PATIENCE
from toposcope.cli.main import main
from toposcope.cli.watch import PUBLISHED as PUBLISHED_BY_NAME
from toposcope.core.errors import InputError, StoreError
from toposcope.core.observations import AuditFinding
from toposcope.forecasting.unplanned import coverage
from toposcope.store import Store
from toposcope.watch.page import panels, traces
from toposcope.watch.page import serve as serving
from toposcope.watch.page._app import application
from toposcope.watch.page.answers import answers, named_rules
from toposcope.watch.page.live import Live
from toposcope.watch.page.show import fragment

HOSTILE = '<img src=x onerror="alert(1)">'
KEY = "neural_persistence/seed004/model/neural_persistence"
MAP = "neural_persistence/seed004/matrix/neural_persistence"


def _wait(check, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def _client(growing, **options):
    app = application(growing.path, every=0.02, answer_every=3600, **options)
    return TestClient(app, base_url="http://127.0.0.1:8765", follow_redirects=False)


@pytest.fixture
def client(growing):
    with _client(growing) as made:
        _wait(lambda: "being read" not in made.get("/fragment/answer").text)
        yield made


def test_the_first_paint_has_the_curves_the_answer_and_no_inline_script(client):
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.text.count("<polyline") == 3
    assert "33 measured checkpoints" in answer.text
    assert "<script>" not in answer.text
    assert " style=" not in answer.text
    assert "http" not in answer.text.replace("http-equiv", "")


def test_names_of_runs_are_text_everywhere(client, growing):
    growing.alarm(HOSTILE, 1800, culprit="<script>alert(2)</script>")
    _wait(lambda: "alert(2)" in client.get("/").text)
    for path in ("/", "/fragment/alarms", "/fragment/answer"):
        text = client.get(path).text
        assert "onerror" not in text or "&lt;img src=x" in text
        assert "<img" not in text
        assert "<script>alert" not in text
    assert HOSTILE in {one["run"] for one in client.get("/panel/index").json()["runs"]}


def test_panels_hold_what_the_store_holds(client):
    shown = client.get("/panel/curves", params={"key": KEY}).json()
    assert shown["title"] == "neural persistence (by matrix)"
    kinds = [trace["kind"] for trace in shown["traces"]]
    assert kinds == ["value"] * 3 + ["null"] * 3
    null = shown["traces"][3]
    assert null["low"][-1] < null["y"][-1] < null["high"][-1]
    heat = client.get("/panel/heat", params={"key": MAP, "run": "small-seed0"}).json()
    assert [line["layer"] for line in heat["lines"]] == [0, 1, 2, 3]
    assert [len(line) for line in heat["values"]] == [11] * 4
    assert "measure with `diagrams` to store them" in client.get("/panel/index").json()["no_diagram"]
    clouds = client.get("/panel/clouds", params={"run": "small-seed0"}).json()
    assert clouds[0]["steps"] == [0, 400, 800, 1200, 1600, 2000]
    asked = {"run": "small-seed0", "step": 400} | {k: clouds[0][k] for k in ("probe", "filtration", "name")}
    bars = client.get("/panel/diagram", params=asked).json()["dims"][0]
    assert (bars["bars"], bars["death"][0], bars["birth"][0]) == (6, None, 1.0)
    assert client.get("/panel/diagram", params={**asked, "step": 300}).status_code == 404
    zoomed = client.get("/panel/curves", params={"from": 500, "to": 1000}).json()["traces"][0]["x"]
    assert (zoomed[0], zoomed[-1]) == (500, 1000)


@pytest.mark.slow
def test_csv_has_every_point_and_no_formula(growing):
    growing.losses("=cmd()", 3000, every=1)
    with _client(growing) as client:
        _wait(lambda: client.get("/csv").text.count("=cmd") == 3001)
        lines = client.get("/csv").text.splitlines()
    assert lines[0] == "run,kind,step,value,low,high"
    assert lines[-1].startswith("small-seed1,value,2000,")
    assert sum(line.startswith("'=cmd(),") for line in lines) == 3001


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8765"}, 200),
        ({"host": "[::1]:8765"}, 200),
        ({"origin": "http://127.0.0.1:8765"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example:8765"}, 421),
        ({"host": "192.168.1.5:8765"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
    ],
)
def test_foreign_hosts_and_origins_are_refused(client, headers, status):
    for path in ("/", "/panel/index", "/static/live.js"):
        answer = client.get(path, headers=headers)
        assert answer.status_code == status
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_the_page_is_read_only(client, method):
    assert client.request(method, "/").status_code == 405


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py", "/static/%2e%2e%2fapp.py", "/static/..%5capp.py", "/static//etc/passwd",
        "/fragment/page", "/fragment/..%2fpage", "/panel/curves?key=../../store.json",
        "/panel/heat?run=../..&key=x", "/csv?key=/etc/passwd", "/store.json", "/features",
        "/panel/diagram?run=..&probe=..&filtration=..&name=..&step=0",
    ],
)  # fmt: skip
def test_nothing_beside_the_store_is_reached(client, path):
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("query", ["from=nan&to=x", "from=1e400", "log=2", "from=5&to=1"])
def test_odd_numbers_are_no_errors(client, query):
    assert client.get(f"/panel/curves?{query}").status_code == 200
    assert client.get("/panel/diagram?step=inf").status_code == 404


def test_beyond_this_machine_every_request_needs_the_token(growing):
    with _client(growing, host="0.0.0.0", token="secret") as client:
        assert client.get("/").status_code == 401
        assert client.get("/", params={"token": "wrong"}).status_code == 401
        assert client.get("/", headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.get("/", headers={"authorization": "Bearer secret"}).status_code == 200
        foreign = {"host": "evil.example", "cookie": "toposcope-token-80=secret"}
        assert client.get("/", headers=foreign).status_code == 421
        entry = client.get("/?open=heat&token=secret")
        assert (entry.status_code, entry.headers["location"]) == (303, "/?open=heat")
        assert "HttpOnly" in entry.headers["set-cookie"]
        name = entry.headers["set-cookie"].split("=")[0]
        assert client.get("/", headers={"cookie": f"{name}=secret"}).status_code == 200
        asked = {"host": "192.168.1.5:8765", "cookie": "toposcope-token-8765=secret"}
        assert client.get("/", headers=asked).status_code == 200


def test_pages_on_two_ports_of_a_machine_have_a_cookie_each(growing):
    with _client(growing, host="0.0.0.0", token="secret") as client:
        for port in (8765, 8766):
            entry = client.get("/?token=secret", headers={"host": f"127.0.0.1:{port}"})
            assert entry.headers["set-cookie"].startswith(f"toposcope-token-{port}=secret;")
        other = {"host": "127.0.0.1:8766", "cookie": "toposcope-token-8765=secret"}
        client.cookies.clear()
        assert client.get("/", headers=other).status_code == 401


def test_the_printed_address_can_be_opened_from_another_machine(growing):
    address = serving.address("0.0.0.0", 8765, "abc")
    assert "0.0.0.0" not in address
    host = address.removeprefix("http://").split("/")[0]
    with _client(growing, host="0.0.0.0", token="secret") as client:
        for name in (host, f"{socket.gethostname().upper()}:8765", f"{socket.getfqdn()}:8765"):
            asked = {"host": name, "authorization": "Bearer secret"}
            assert client.get("/", headers=asked).status_code == 200


def test_a_token_can_be_asked_for_on_a_machine_that_others_share(growing):
    assert len(serving.new_token("127.0.0.1", wanted=True)) >= 24
    with _client(growing, token="secret") as client:
        assert client.get("/").status_code == 401
        assert client.get("/", headers={"authorization": "Bearer secret"}).status_code == 200
        name = {"host": "node7:8765", "authorization": "Bearer secret"}
        assert client.get("/", headers=name).status_code == 421


def test_a_port_that_is_taken_leaves_no_store(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SystemExit):
            main(["watch", str(tmp_path / "run"), "--port", str(taken.getsockname()[1])])
    assert "try another --port" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


def test_a_host_elsewhere_gets_a_token_and_never_none(growing):
    assert serving.new_token("127.0.0.1") is None
    assert len(serving.new_token("0.0.0.0")) >= 24
    with pytest.raises(InputError, match=r"other machines can reach host 0\.0\.0\.0; give a token"):
        serving.server(growing.path, host="0.0.0.0")


def test_what_cannot_be_served_is_said(tmp_path, growing):
    with pytest.raises(StoreError, match="none does not exist; a store is made with"):
        serving.server(tmp_path / "none")
    with pytest.raises(InputError, match="port 70000: out of range; give a number from 0 to 65535"):
        serving.bound("127.0.0.1", 70000)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match=r"cannot listen at 127\.0\.0\.1 port .* try another `port`"):
            serving.bound("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--once", "--port", "0"], "--port 0 keeps a page open; leave one of them out"),
        (["--host", "0.0.0.0"], "--host '0.0.0.0': it needs a port; give --port"),
    ],
)
def test_options_that_exclude_each_other_are_said(growing, capsys, options, why):
    with pytest.raises(SystemExit, match="2"):
        main(["watch", str(growing.path), *options])
    assert why in capsys.readouterr().err


class _Stream:
    """A viewer: reads events off the wire."""

    def __init__(self, served, since, *panels):
        asked = [("since", since), ("answered", 0), *(("panel", one) for one in panels)]
        query = urllib.parse.urlencode(asked)
        self._answer = urllib.request.urlopen(f"{served}/events?{query}", timeout=PATIENCE)

    def next(self, name):
        """Return content and size of the next event of a name."""
        event, size = "", 0
        end = time.monotonic() + PATIENCE  # the stream says every 15 s that it is there
        for line in self._answer:
            assert time.monotonic() < end, f"no event {name}"
            size += len(line)
            text = line.decode().rstrip("\n")
            if text.startswith("event: "):
                event = text[7:]
            if text.startswith("data: ") and event == name:
                return json.loads(text[6:]), size
        raise AssertionError("the stream ended")

    def close(self):
        self._answer.close()


def _json(served, path):
    return json.loads(urllib.request.urlopen(served + path, timeout=PATIENCE).read())


def test_only_new_points_travel_and_only_of_open_panels(served, growing):
    _wait(
        lambda: (
            b"being read" not in urllib.request.urlopen(f"{served}/fragment/answer", timeout=PATIENCE).read()
        )
    )
    shown = _json(served, "/panel/curves")
    ids = {trace["run"]: str(trace["id"]) for trace in shown["traces"]}
    stream = _Stream(served, shown["version"], "c:metrics///loss")
    assert stream.next("points")[0]["traces"] == {}
    growing.losses("small-seed1", 2050)
    new, size = stream.next("points")
    assert set(new["traces"]) == {ids["small-seed1"]}
    assert new["traces"][ids["small-seed1"]]["x"] == [2010, 2020, 2030, 2040, 2050]
    assert size < 500
    growing.checkpoint("small-seed0", 2200)
    assert stream.next("points")[0]["traces"] == {}
    growing.losses("small-seed0", 22_000)
    assert stream.next("points")[0]["stale"] == ["c:metrics///loss"]
    stream.close()


def test_a_cursor_of_another_server_is_told_to_load_anew(served):
    for since in (0, 1, 10**15):
        stream = _Stream(served, since)
        assert stream.next("reload")[0] == {}
        stream.close()


def test_a_store_that_breaks_is_told_and_looked_at_again(client, growing):
    part = next((growing.path / "metrics").glob("small-seed0*"))
    content = part.read_bytes()
    part.write_bytes(content[:100])
    _wait(lambda: "cannot be read" in client.get("/fragment/answer").text)
    part.write_bytes(content)
    _wait(lambda: "cannot be read" not in client.get("/fragment/answer").text)


def test_memory_holds_each_point_once_however_often_it_is_measured(growing):
    live = Live(growing.path)
    live.visit()
    trace = live.traces.by_measure[KEY]["small-seed0"]
    for _ in range(3):
        growing.checkpoint("small-seed0", 2000)
        live.visit()
    assert len(trace) == 11
    assert live.visit() == set()


def test_an_empty_store_has_a_page(tmp_path):
    Store.create(tmp_path / "empty", recipe={})
    with TestClient(application(tmp_path / "empty"), base_url="http://127.0.0.1") as client:
        assert "No loss is logged" in client.get("/").text
        index = client.get("/panel/index").json()
    assert "diagram" in index.pop("no_diagram")
    assert index == {"runs": [], "measures": [], "maps": []}


@pytest.mark.slow
def test_the_page_answers_as_analyze_does_by_the_rules_it_is_given(growing):
    growing.runs("small-seed0", "small-seed1", HOSTILE, steps=2000)  # finished: forecasts are compared
    told = answers(growing.path, named_rules(PUBLISHED_BY_NAME))
    found = ts.analyze(growing.path).all_findings
    assert [part["answers"] for part in told["parts"]] == [one.paragraphs for one in found]
    assert told != answers(growing.path, named_rules(""))
    with _client(growing, published="toposcope.nowhere:RULES") as made:  # another process
        _wait(lambda: "the analysis stopped with an error" in made.get("/fragment/answer").text)


def test_the_audit_says_what_was_found_that_nothing_was_or_that_none_was_made(growing):
    growing.journal.append("started", folder="/data/my runs", process=1)
    finding = AuditFinding(
        "small-seed0", 400, "layers.0.mlp.weight", "is zero throughout", fault="zero-tensor"
    )
    with _client(growing) as client:

        def shown():
            return client.get("/fragment/audit").text

        _wait(lambda: "These checkpoints have not been audited yet" in shown())
        _wait(lambda: "<code>toposcope audit &#39;/data/my runs&#39;</code>" in shown())
        growing.store.write_audit("/data/my runs", [])
        _wait(lambda: "The audit of the checkpoints found nothing." in shown())
        growing.store.write_audit("/data/my runs", [finding])
        _wait(lambda: ">is zero throughout</td>" in shown())
        assert "Last audited 20" in shown()


@pytest.mark.parametrize(
    ("status", "said"), [("ok", "90%"), ("no plan", "93% of tests on 212 real runs"), ("unhealthy", "none")]
)
def test_a_forecast_states_the_coverage_that_it_has_and_else_none(growing, status, said):
    one = {
        "run": "small-seed0", "status": status, "reason": "", "final": 1.4, "low": 1.3, "high": 1.5,
        "level": 0.9, "coverage": coverage(status, 0.9, own=True), "horizon": 4000, "endless": False,
        "bounded": True, "not_yet": "",
    }  # fmt: skip
    text = fragment("forecasts", Live(growing.path), {"forecasts": [one]})
    assert f'<td data-label="coverage">{said}</td>' in text


@pytest.mark.slow
def test_a_long_trace_is_thinned_in_memory_and_whole_in_the_table(growing, monkeypatch):
    monkeypatch.setattr(traces, "HELD", 32)
    monkeypatch.setattr(traces, "HELD_LOGGED", 32)
    growing.runs("one")
    live = Live(growing.path)
    for step in range(0, 1000, 20):
        growing.losses("one", step + 19)
        growing.checkpoint("one", step)
        assert "points" in live.visit()
        if step:
            found = panels.newer(live, ["c:" + KEY, "c:" + panels.LOSS], live.version - 1)
            assert [points["x"] for points in found["traces"].values()] == [[step], [step], [step, step + 10]]
    held = [live.traces.by_measure[key]["one"] for key in (KEY, panels.LOSS)]
    assert [trace.seen for trace in held] == [50, 100]
    assert all(len(trace) <= 32 for trace in held)
    assert all(trace.step[0] == 0 and trace.step[-1] >= 980 for trace in held)
    for key, count in ((KEY, 50), (panels.LOSS, 100)):
        lines = [line for line in panels.table(live, key) if line.startswith("one,value,")]
        assert len(lines) == count
    assert live.visit() == set()


def test_a_thinned_trace_keeps_its_extremes_and_its_beginning():
    trace = traces.LiveTrace(0, most=400)
    for step in range(20_000):
        value = 100.0 if step == 7_777 else float(np.sin(step))
        trace.put(step, value, value - 1, value + 1, step)
    assert len(trace) <= 400
    assert 7_777 in trace.step
    assert trace.value.max() == 100.0
    assert trace.newer(19_998).tolist() == [len(trace) - 1]
    assert np.all(trace.high - trace.low == 2.0)
    assert np.sum(trace.step < 100) > 20  # a scale of log steps has them
