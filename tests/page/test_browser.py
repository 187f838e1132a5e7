"""The page in a real browser: nothing breaks, nothing is fetched, nothing sticks out."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from tests.patience import PATIENCE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=4000", "--enable-logging=stderr", "--v=0",
)  # fmt: skip
PROBE = """<script>
window.addEventListener("load", () => {
  const seen = {
    width: document.documentElement.clientWidth,
    content: document.documentElement.scrollWidth,
    images: [...document.images].map(i => ({alt: i.alt, ok: i.complete && i.naturalWidth > 0})),
    fetched: performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:")),
    unlabelled: document.querySelectorAll("[role=region]:not([aria-label])").length,
    small: [...document.querySelectorAll("main p")]
      .filter(p => parseFloat(getComputedStyle(p).fontSize) < 13).length,
    cut: [...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth)
      .map(e => getComputedStyle(e).backgroundAttachment),
    anchors: [...document.querySelectorAll('a[href^="#"]')]
      .filter(a => !document.querySelector(a.hash)).length,
  };
  const out = document.createElement("pre"); out.id = "probe"; out.textContent = JSON.stringify(seen);
  document.body.append(out);
});
</script></body>"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def page(written, tmp_path_factory):
    probed = tmp_path_factory.mktemp("browser") / "probed.html"
    probed.write_text((written / "index.html").read_text().replace("</body>", PROBE))
    return probed


def _open(page, width, *extra):
    frame = page.with_name(f"frame{width}.html")
    # Headless windows are never narrower than about 500 px, so a frame of the exact width holds the page.
    frame.write_text(
        f'<body style="margin:0"><iframe src="{page.name}" style="border:0;width:{width}px;height:900px">'
        "</iframe>"
        """<script>window.addEventListener("load", () => setTimeout(() => {
        const inner = document.querySelector("iframe").contentDocument.querySelector("#probe");
        const out = document.createElement("pre"); out.id = "outer"; out.textContent = inner.textContent;
        document.body.append(out); }, 500));</script></body>"""
    )
    data = page.with_name(f"profile{width}")
    command = [
        CHROMIUM,
        *FLAGS,
        *extra,
        "--allow-file-access-from-files",
        f"--user-data-dir={data}",
        "--dump-dom",
    ]
    done = subprocess.run(
        [*command, frame.as_uri()], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    found = re.search(r'<pre id="outer">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stderr[-2000:]
    text = found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return json.loads(text), [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


@pytest.mark.parametrize("width", [400, 1200])
def test_the_page_fits_fetches_nothing_and_is_described(page, width):
    seen, console = _open(page, width)
    assert console == []
    assert seen["width"] == width
    assert seen["content"] <= width
    assert seen["fetched"] == []
    assert len(seen["images"]) == 10
    assert all(image["ok"] and len(image["alt"]) > 30 for image in seen["images"])
    assert (seen["unlabelled"], seen["small"], seen["anchors"]) == (0, 0, 0)
    # what is cut throws a shadow, which the end of the content covers
    assert set(seen["cut"]) <= {"local, local, scroll, scroll"}
    assert width > 400 or seen["cut"]


@pytest.mark.sample
def test_the_probe_sees_what_it_is_there_to_see(page):
    broken = page.with_name("broken.html")
    wide = (
        '<div style="width:3000px">wide</div><img src="http://127.0.0.1:9/x.png"><script>nonsense(</script>'
    )
    broken.write_text(page.read_text().replace("<main>", "<main>" + wide))
    seen, console = _open(broken, 1200)
    assert seen["content"] > 1200
    assert any("x.png" in name for name in seen["fetched"])
    assert not all(image["ok"] for image in seen["images"])
    assert console
