"""A hub on the loopback address: the part of its HTTP interface that models travel over.

It keeps repositories in memory: branches, commits, private ones, and files above a size as large
files with a store of their own, to which downloads are redirected. Answers carry the headers and
error codes that huggingface_hub reads.
"""

import base64
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

WRITER, READER = "hf_writer", "hf_reader"
TOKENS = {WRITER: "user", READER: "other"}
LARGE = ".safetensors"


@dataclass
class Repository:
    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def commit(self, branch: str, files: dict[str, bytes], message: str) -> str:
        self.messages.append(message)
        seed = f"{len(self.commits)}{sorted(files)}".encode()
        sha = hashlib.sha1(seed).hexdigest()
        self.commits[sha], self.branches[branch] = files, sha
        return sha

    def find(self, revision: str) -> str | None:
        sha = self.branches.get(revision, revision)
        return sha if sha in self.commits else None


@dataclass
class Hub:
    """What the server holds, for tests to look at and to change."""

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    store: dict[str, bytes] = field(default_factory=dict)  # large files by their SHA-256
    requests: list[str] = field(default_factory=list)

    def add(self, name: str, files: dict[str, bytes], *, private: bool = False) -> Repository:
        repository = self.repositories[name] = Repository(private)
        repository.commit("main", {".gitattributes": b"", **files}, "initial commit")
        return repository


class Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def send(
        self, code: int, body: Any = None, headers: dict[str, str] | None = None, length: int = -1
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if length < 0 else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def fail(self, code: int, name: str = "", text: str = "") -> None:
        headers = {"X-Error-Message": text or name} | ({"X-Error-Code": name} if name else {})
        self.send(code, {"error": text or name}, headers)

    @property
    def user(self) -> str | None:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        return TOKENS.get(token)

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Transfer-Encoding") == "chunked":
            sent = b"".join(self.chunks())
        else:
            sent = self.rfile.read(length)
        parts = [unquote(part) for part in urlsplit(self.path).path.split("/")[1:]]
        self.hub.requests.append(f"{self.command} {self.path}")
        if self.headers.get("Authorization") and self.user is None:
            self.fail(401, text="Invalid credentials in Authorization header")
        elif parts == [""]:
            self.send(200, b"")
        elif parts[0] == "store":
            self.large_file(parts[1], sent)
        elif parts[:3] == ["api", "repos", "create"]:
            self.create(json.loads(sent))
        elif parts[:2] == ["api", "validate-yaml"]:
            self.send(200, {"errors": [], "warnings": []})
        elif parts[:2] == ["api", "models"]:
            self.of_model("/".join(parts[2:4]), parts[4:], sent)
        elif len(parts) > 4 and parts[2] == "resolve":
            self.of_model("/".join(parts[:2]), parts[2:], sent)
        elif parts[1].endswith(".git"):
            self.large_batch(json.loads(sent))
        else:
            self.fail(404, text=f"no such address: {self.path}")

    do_GET = do_HEAD = do_POST = do_PUT = answer  # noqa: N815

    def chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def create(self, asked: dict[str, Any]) -> None:
        name = f"{asked['organization'] or self.user}/{asked['name']}"
        if self.user is None:
            self.fail(401, text="Invalid username or password.")
        elif self.user != name.partition("/")[0]:
            self.fail(403, text="You don't have the rights to create a model under this namespace")
        elif name in self.hub.repositories:
            self.fail(409, text="You already created this model repo")
        else:
            private = asked.get("private", asked.get("visibility") == "private")
            self.hub.add(name, {}, private=private)
            self.send(200, {"url": f"{self.hub.address}/{name}"})

    def of_model(self, name: str, rest: list[str], sent: bytes) -> None:
        repository = self.hub.repositories.get(name)
        owner = self.user == name.partition("/")[0]
        writes = self.command == "POST"
        if repository is None or (repository.private and not owner):
            self.fail(401 if self.user is None else 404, "RepoNotFound", "Repository not found")
            return
        if writes and not owner:
            self.fail(403, text="Forbidden: pass `create_pr=1` to open a pull request")
            return
        what = rest[0] if rest else "revision"
        revision = rest[1] if len(rest) > 1 else "main"
        if what == "branch":
            sha = repository.branches["main"]
            known = revision in repository.branches
            repository.branches.setdefault(revision, sha)
            self.send(409 if known else 200, {})
            return
        sha = repository.find(revision) or ""
        if not sha:
            self.fail(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        elif what == "resolve":
            self.resolve(repository, sha, "/".join(rest[2:]))
        elif what == "revision":
            siblings = [{"rfilename": path} for path in repository.commits[sha]]
            about = {"id": name, "sha": sha, "private": repository.private}
            self.send(200, {**about, "siblings": siblings, "tags": []})
        elif what == "tree":
            self.send(200, [_entry(*item) for item in repository.commits[sha].items()])
        elif what == "preupload":
            files = [
                {"path": one["path"], "shouldIgnore": False, "uploadMode": _mode(one["path"])}
                for one in json.loads(sent)["files"]
            ]
            self.send(200, {"files": files})
        else:
            self.commit(name, repository, revision, sent)

    def commit(self, name: str, repository: Repository, branch: str, sent: bytes) -> None:
        files, message = dict(repository.commits[repository.branches[branch]]), ""
        for line in sent.decode().splitlines():
            step = json.loads(line)
            value = step["value"]
            if step["key"] == "header":
                message = value["summary"]
            elif step["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif step["key"] == "lfsFile":
                files[value["path"]] = self.hub.store[value["oid"]]
            else:
                del files[value["path"]]
        sha = repository.commit(branch, files, message)
        url = f"{self.hub.address}/{name}/commit/{sha}"
        self.send(200, {"success": True, "commitUrl": url, "commitOid": sha})

    def large_batch(self, asked: dict[str, Any]) -> None:
        found: list[dict[str, Any]] = []
        for one in asked["objects"]:
            href = f"{self.hub.address}/store/{one['oid']}"
            stored = one["oid"] in self.hub.store
            found.append(one if stored else {**one, "actions": {"upload": {"href": href}}})
        self.send(200, {"transfer": "basic", "objects": found})

    def large_file(self, oid: str, sent: bytes) -> None:
        if self.command != "PUT":
            self.send(200, self.hub.store[oid], {"ETag": f'"{oid}"'})
        elif hashlib.sha256(sent).hexdigest() == oid:
            self.hub.store[oid] = sent
            self.send(200, b"")
        else:
            self.fail(400, text="wrong checksum")

    def resolve(self, repository: Repository, sha: str, path: str) -> None:
        headers = {"X-Repo-Commit": sha}
        if path not in repository.commits[sha]:
            headers |= {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"}
            self.send(404, b"", headers)
            return
        content = repository.commits[sha][path]
        entry = _entry(path, content)
        if "lfs" not in entry:
            self.send(200, content, {**headers, "ETag": f'"{entry["oid"]}"'})
            return
        oid = entry["lfs"]["oid"]
        self.hub.store[oid] = content
        linked = {"X-Linked-Etag": f'"{oid}"', "X-Linked-Size": str(len(content))}
        store = self.hub.address.replace("127.0.0.1", "localhost")  # another host: no token there
        self.send(302, b"", {**headers, **linked, "Location": f"{store}/store/{oid}"})


def _mode(path: str) -> str:
    return "lfs" if path.endswith(LARGE) else "regular"


def _entry(path: str, content: bytes) -> dict[str, Any]:
    blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
    entry = {"type": "file", "path": path, "size": len(content), "oid": blob}
    if _mode(path) == "lfs":
        oid = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"oid": oid, "size": len(content), "pointerSize": 128}
    return entry


@contextlib.contextmanager
def hub_on_loopback() -> Iterator[Hub]:
    """A running hub on a port of its own; it stops with the block."""
    hub = Hub()
    handler = type("HubHandler", (Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        hub.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
