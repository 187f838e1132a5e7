"""A small server on loopback that speaks the hub's protocol, with faults that can be switched on."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlparse

_REVISION = "refs/convert/parquet|[^/]+"


@dataclass
class Repository:
    """Revisions of a model: revision -> file name -> content. Safetensors and bin files count as large."""

    name: str
    revisions: dict[str, dict[str, bytes]]
    tags: tuple[str, ...] = ()

    def commit(self, revision: str) -> str:
        return hashlib.sha1(f"{self.name}@{revision}".encode()).hexdigest()

    def find(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        for name, files in self.revisions.items():
            if revision in (name, self.commit(name)):
                return name, files
        return None


@dataclass
class Faults:
    """What goes wrong: a file name -> how often each fault still strikes."""

    busy: Counter[str] = field(default_factory=Counter)
    truncated: Counter[str] = field(default_factory=Counter)
    wrong: set[str] = field(default_factory=set)
    busy_listing: int = 0


def is_large(name: str) -> bool:
    return name.endswith((".safetensors", ".bin"))


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Hub:
    """The server's state: repositories, faults, and a log of what was asked."""

    def __init__(self, *repositories: Repository) -> None:
        self.repositories = {repository.name: repository for repository in repositories}
        self.faults = Faults()
        self.log: list[tuple[str, str, str | None]] = []
        self.url = ""
        self.storage = ""
        """The same server by another name: large files live on another host than the hub itself."""

    def downloads(self) -> list[str]:
        return [path for method, path, _ in self.log if method == "GET" and path.startswith("/cdn/")]


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

        def do_GET(self) -> None:
            self.answer()

        def do_HEAD(self) -> None:
            self.answer()

        def answer(self) -> None:
            path = unquote(urlparse(self.path).path)
            hub.log.append((self.command, path, self.headers.get("Range")))
            path = re.sub(r"^/(api/)?datasets/", lambda found: "/api/models/" if found[1] else "/", path)
            for pattern, action in (
                (r"/api/models/(?P<repo>[^/]+/[^/]+)/refs", self.refs),
                (rf"/api/models/(?P<repo>[^/]+/[^/]+)(?:/revision/(?P<rev>{_REVISION}))?", self.info),
                (rf"/api/models/(?P<repo>[^/]+/[^/]+)/tree/(?P<rev>{_REVISION})/?", self.tree),
                (rf"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<rev>{_REVISION})/(?P<file>.+)", self.resolve),
                (r"/cdn/(?P<repo>[^/]+/[^/]+)/(?P<rev>[^/]+)/(?P<file>.+)", self.cdn),
            ):
                found = re.fullmatch(pattern, path)
                if found:
                    return action(**found.groupdict())
            return self.missing("EntryNotFound", "no such path")

        def reply(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def as_json(self, content: object) -> None:
            self.reply(200, json.dumps(content).encode(), Content_Type="application/json")

        def missing(self, code: str, message: str) -> None:
            self.reply(
                404, json.dumps({"error": message}).encode(), X_Error_Code=code, X_Error_Message=message
            )

        def located(self, repo: str, rev: str) -> tuple[Repository, str, dict[str, bytes]] | None:
            repository = hub.repositories.get(repo)
            if repository is None:
                self.missing("RepoNotFound", "Repository not found")
                return None
            found = repository.find(rev)
            if found is None:
                self.missing("RevisionNotFound", f"Invalid rev id: {rev}")
                return None
            return repository, *found

        def refs(self, repo: str) -> None:
            if hub.faults.busy_listing > 0:
                hub.faults.busy_listing -= 1
                return self.reply(429, b"slow down", Retry_After="0")
            repository = hub.repositories.get(repo)
            if repository is None:
                return self.missing("RepoNotFound", "Repository not found")

            def ref(name: str, kind: str) -> dict[str, str]:
                return {"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": repository.commit(name)}

            branches = [ref(name, "heads") for name in repository.revisions if name not in repository.tags]
            return self.as_json(
                {
                    "branches": branches,
                    "converts": [],
                    "tags": [ref(name, "tags") for name in repository.tags],
                }
            )

        def info(self, repo: str, rev: str | None = None) -> None:
            located = self.located(repo, rev or "main")
            if located:
                repository, name, files = located
                siblings = [_sibling(file, content) for file, content in files.items()]
                self.as_json(
                    {
                        "id": repo,
                        "modelId": repo,
                        "sha": repository.commit(name),
                        "siblings": siblings,
                        "tags": [],
                        "private": False,
                    }
                )

        def tree(self, repo: str, rev: str) -> None:
            located = self.located(repo, rev)
            if located:
                self.as_json(
                    [
                        {"type": "file", "path": f, "size": len(c), "oid": blob_id(c)}
                        for f, c in located[2].items()
                    ]
                )

        def resolve(self, repo: str, rev: str, file: str) -> None:
            located = self.located(repo, rev)
            if not located:
                return None
            repository, name, files = located
            if file not in files:
                return self.missing("EntryNotFound", "Entry not found")
            content = files[file]
            headers = {"X_Repo_Commit": repository.commit(name), "Accept_Ranges": "bytes"}
            if is_large(file):
                tag = hashlib.sha256(content).hexdigest()
                location = f"{hub.storage}/cdn/{repo}/{name}/{file}"
                return self.reply(
                    302,
                    b"",
                    X_Linked_Etag=f'"{tag}"',
                    X_Linked_Size=str(len(content)),
                    Location=location,
                    **headers,
                )
            return self.content(file, content, ETag=f'"{blob_id(content)}"', **headers)

        def cdn(self, repo: str, rev: str, file: str) -> None:
            located = self.located(repo, rev)
            if located:
                content = located[2][file]
                self.content(file, content, ETag=f'"{hashlib.sha256(content).hexdigest()}"')

        def content(self, file: str, content: bytes, **headers: str) -> None:
            if self.command == "GET" and hub.faults.busy[file] > 0:
                hub.faults.busy[file] -= 1
                return self.reply(429, b"slow down", Retry_After="0")
            if file in hub.faults.wrong:
                content = bytes(byte ^ 1 for byte in content)
            start = 0
            found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            status = 200
            if found:
                start, stop = int(found[1]), int(found[2] or len(content) - 1) + 1
                headers["Content_Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
                content, status = content[start:stop], 206
            if self.command == "GET" and hub.faults.truncated[file] > 0:
                hub.faults.truncated[file] -= 1
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2])
                self.close_connection = True
                return None
            return self.reply(status, content, **headers)

    return Handler


def _sibling(name: str, content: bytes) -> dict[str, object]:
    sibling: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": blob_id(content)}
    if is_large(name):
        sibling["lfs"] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "size": len(content),
            "pointerSize": 130,
        }
    return sibling


@contextmanager
def serving(hub: Hub):
    """Serve `hub` on a free port of loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    hub.storage = f"http://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
