"""A hub of our own on the loopback interface: it answers for datasets as that of Hugging Face does, and fails in chosen ways."""

import contextlib
import hashlib
import http.server
import json
import os
import threading
import urllib.parse


def etag_of(content, large):
    """As the hub names blobs: SHA-256 of files in large-file storage, git's hash of others."""
    return (
        hashlib.sha256(content).hexdigest()
        if large
        else hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    )


class Hub:
    """Datasets by "OWNER/NAME": files by name. `faults` are functions of (handler, path), which answer and return True, or do nothing; each is
    asked before anything else. `requests` are (method, path, range, authorization)."""

    def __init__(self, datasets, token=None, large=("parquet", "jsonl")):
        self.datasets, self.token, self.large = datasets, token, large
        self.faults, self.requests = [], []
        self.commits = {name: hashlib.sha1(name.encode()).hexdigest() for name in datasets}
        self.elsewhere = None  # the endpoint of the storage that large files lie in

    def is_large(self, name):
        return name.rsplit(".", 1)[-1] in self.large

    def fetched(self):
        """The names of the files that were asked for, in order."""
        return [path.split("/resolve/")[1].split("/", 1)[1] for _, path, _, _ in self.requests if "/resolve/" in path]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_file(self, content, **headers):
        asked = self.headers.get("Range")
        begin, end = 0, len(content)
        if asked:
            first, last = asked.removeprefix("bytes=").split("-")
            begin, end = int(first), min(len(content), int(last) + 1) if last else len(content)
        if begin >= end and asked:
            return self.reply(416)
        self.reply(
            206 if asked else 200,
            content[begin:end],
            **headers,
            **({"content-range": f"bytes {begin}-{end - 1}/{len(content)}"} if asked else {}),
        )

    def cut_after(self, content, count):
        """Promises what is asked for, sends `count` bytes, and goes away."""
        asked = self.headers.get("Range")
        begin = int(asked.removeprefix("bytes=").split("-")[0]) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("content-length", str(len(content) - begin))
        if asked:
            self.send_header("content-range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        self.wfile.write(content[begin : begin + count])
        self.wfile.flush()
        self.close_connection = True

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub = self.server.hub
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        hub.requests.append((self.command, path, self.headers.get("Range"), self.headers.get("Authorization")))
        if any(fault(self, path) for fault in hub.faults):
            return
        if path.startswith("/storage/"):
            return self.send_file(self.server.stored[path])
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self.reply(401, b"{}", x_error_message="Invalid username or password.")
        parts = path.strip("/").split("/")
        api = parts[0] == "api"
        name = "/".join(parts[2:4] if api else parts[1:3])
        files = hub.datasets.get(name)
        if files is None:
            return self.reply(404, b"{}", x_error_code="RepoNotFound", x_error_message="Repository not found")
        commit = hub.commits[name]
        revision = "/".join(parts[5:]) if api else parts[4]
        if revision not in ("main", commit, "refs/convert/parquet"):
            return self.reply(
                404, b"{}", x_error_code="RevisionNotFound", x_error_message=f"Invalid rev id: {revision}"
            )
        if api:
            siblings = []
            for file, content in files.items():
                large = hub.is_large(file)
                sibling = {"rfilename": file, "size": len(content), "blobId": etag_of(content, False)}
                if large:
                    sibling["lfs"] = {"sha256": etag_of(content, True), "size": len(content), "pointerSize": 130}
                siblings.append(sibling)
            return self.reply(
                200,
                json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode(),
                content_type="application/json",
            )
        file = "/".join(parts[5:])
        if file not in files:
            return self.reply(404, b"", x_error_code="EntryNotFound", x_error_message="Entry not found")
        etag = etag_of(files[file], hub.is_large(file))
        facts = {"etag": f'"{etag}"', "x_repo_commit": commit}
        if hub.elsewhere and hub.is_large(file):
            where = f"/storage/{etag}"
            hub.elsewhere.stored[where] = files[file]
            location = f"http://localhost:{hub.elsewhere.server_port}{where}?signature=secret"
            return self.reply(
                302, b"", location=location, x_linked_etag=f'"{etag}"', x_linked_size=str(len(files[file])), **facts
            )
        self.send_file(files[file], **facts)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):
        """A client may go away at any time."""


@contextlib.contextmanager
def served(hub, handler=Handler):
    """Serves while the block runs; the server, whose `endpoint` is its URL."""
    server = Server(("127.0.0.1", 0), handler)
    server.hub, server.stored, server.endpoint = hub, {}, f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def environment(tmp, endpoint=None, **more):
    """Settings under which nothing but the endpoint can be reached, and the cache and the token are in a folder of the test."""
    settings = {
        name: ""
        for name in [
            "HF_TOKEN",
            "HF_TOKEN_PATH",
            "HF_HUB_OFFLINE",
            "HF_HUB_CACHE",
            "XDG_CACHE_HOME",
            "http_proxy",
            "HTTP_PROXY",
            "https_proxy",
            "HTTPS_PROXY",
            "all_proxy",
            "ALL_PROXY",
        ]
    }
    return {
        **settings,
        "HF_HOME": str(tmp / "hf"),
        "HF_ENDPOINT": endpoint or "http://127.0.0.1:1",
        "no_proxy": "*",
        **more,
    }


def everything_below(folder):
    """The bytes of all files, links followed."""
    return b"".join(
        open(os.path.join(place, name), "rb").read() for place, _, names in os.walk(folder) for name in names
    )
