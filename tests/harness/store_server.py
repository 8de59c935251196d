"""An object store of our own on the loopback interface, with as much of the interface of S3 and of Google Cloud Storage as readers need."""

import email.utils
import hashlib
import json
import urllib.parse
import xml.sax.saxutils

from hub_server import Handler, served

MODIFIED = 1_700_000_000


class Store:
    """Buckets of objects by key. `faults` as those of a Hub; `page` objects are listed at a time."""

    def __init__(self, buckets, page=3):
        self.buckets, self.page = buckets, page
        self.faults, self.requests = [], []

    def bytes_sent(self):
        return sum(count for *_, count in self.requests)


class StoreHandler(Handler):
    def error(self, status, code):
        self.reply(
            status,
            f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>said by the test: {code}</Message></Error>".encode(),
            content_type="application/xml",
        )

    def do_GET(self):
        store = self.server.hub
        url = urllib.parse.urlsplit(self.path)
        path, query = (
            urllib.parse.unquote(url.path),
            {name: value[0] for name, value in urllib.parse.parse_qs(url.query).items()},
        )
        before = len(store.requests)
        store.requests.append((self.command, path, self.headers.get("Range"), query, 0))
        if any(fault(self, path) for fault in store.faults):
            return
        if path.startswith("/storage/v1/b/") or path.startswith("/download/storage/v1/b/"):
            return self.google(
                store, path, urllib.parse.unquote(url.path.split("/o/", 1)[1]) if "/o/" in url.path else "", query
            )
        bucket, _, key = path.lstrip("/").partition("/")
        objects = store.buckets.get(bucket)
        if objects is None:
            return self.error(404, "NoSuchBucket")
        if not key and self.command == "HEAD":
            return self.reply(200)
        if not key:
            return self.list(store, bucket, objects, query)
        if key not in objects:
            return self.error(404, "NoSuchKey")
        content = objects[key]
        facts = {
            "etag": f'"{hashlib.md5(content).hexdigest()}"',
            "last-modified": email.utils.formatdate(MODIFIED, usegmt=True),
            "accept-ranges": "bytes",
        }
        asked = self.headers.get("Range")
        if asked:
            first, last = asked.removeprefix("bytes=").split("-")
            store.requests[before] = (*store.requests[before][:4], min(int(last), len(content) - 1) - int(first) + 1)
        if self.command == "HEAD":
            self.send_response(200)
            for name, value in {**facts, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            return self.end_headers()
        self.send_file(content, **facts)

    def list(self, store, bucket, objects, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        begin = query.get("continuation-token", "")
        entries = set()
        for key in objects:
            if key.startswith(prefix):
                rest = key[len(prefix) :]
                entries.add(
                    (prefix + rest.split(delimiter)[0] + delimiter, True)
                    if delimiter and delimiter in rest
                    else (key, False)
                )
        left = [entry for entry in sorted(entries) if entry[0] > begin]
        page = left[: min(store.page, int(query.get("max-keys", 1000)))]
        escape = xml.sax.saxutils.escape
        stamp = "2023-11-14T22:13:20.000Z"
        body = "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            if folder
            else f"<Contents><Key>{escape(name)}</Key><LastModified>{stamp}</LastModified><ETag>&quot;x&quot;</ETag><Size>{len(objects[name])}</Size></Contents>"
            for name, folder in page
        )
        more = len(page) < len(left)
        self.reply(
            200,
            (
                f"<?xml version='1.0'?><ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount><MaxKeys>1000</MaxKeys>"
                f"<IsTruncated>{str(more).lower()}</IsTruncated>"
                + (f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>" if more else "")
                + f"{body}</ListBucketResult>"
            ).encode(),
            content_type="application/xml",
        )

    def google(self, store, path, key, query):
        bucket = path.split("/b/")[1].split("/")[0]
        objects = store.buckets.get(bucket, {})

        def facts(name):
            return {
                "kind": "storage#object",
                "id": f"{bucket}/{name}/1",
                "name": name,
                "bucket": bucket,
                "generation": "1",
                "size": str(len(objects[name])),
                "updated": "2023-11-14T22:13:20.000Z",
            }

        if not key and "/o" in path:
            found = [facts(name) for name in sorted(objects) if name.startswith(query.get("prefix", ""))]
            return self.reply(
                200, json.dumps({"kind": "storage#objects", "items": found}).encode(), content_type="application/json"
            )
        if key not in objects:
            return self.reply(
                404,
                json.dumps({"error": {"code": 404, "message": "Not Found"}}).encode(),
                content_type="application/json",
            )
        if query.get("alt") == "media" or path.startswith("/download"):
            return self.send_file(objects[key], **{"x-goog-generation": "1"})
        self.reply(200, json.dumps(facts(key)).encode(), content_type="application/json")


def stored(buckets, **settings):
    """Serves a store while the block runs."""
    return served(Store(buckets, **settings), StoreHandler)


def environment(server):
    """Settings under which no other store, and no service that gives credentials, is asked."""
    return {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "secretOfTheTest",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nowhere",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
        "AWS_PROFILE": "default",
        "no_proxy": "*",
        "http_proxy": "",
        "https_proxy": "",
    }
