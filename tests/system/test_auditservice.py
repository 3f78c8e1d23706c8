"""The audit log read through the API: who may, what is found, what is followed, what can be verified."""

import base64
import http.client
import json
import os
import struct
import subprocess
import tempfile
import threading
import time

import audit_files
import fixture
from harness import eventually, main, test

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
SERVICE = "/cordium.ext.v1.AuditService/"


def token_of(platform, key, token=None):
    """One access token a user for all of this file: a user has not many sessions."""
    tokens = platform.__dict__.setdefault("audit_tokens", {})
    if key not in tokens:
        tokens[key] = platform.access_token(token)
    return tokens[key]


def call(platform, method, message, token=None):
    """Gives (HTTP status, JSON)."""
    status, text = platform.curl(SERVICE + method, json.dumps(message), token or token_of(platform, "admin"))
    return status, json.loads(text)


def ok(platform, method, message, token=None):
    status, reply = call(platform, method, message, token)
    assert status == 200, reply
    return reply


def listed(platform, filter, **options):
    return ok(platform, "List", {"filter": filter, "pageSize": 1000, **options}).get("records", [])


class Stream:
    """A server stream by Connect: envelopes of JSON. Read as slowly as the test likes."""

    def __init__(self, platform, method, message, token=None):
        body = json.dumps(message).encode()
        self.connection = http.client.HTTPSConnection(
            "localhost", platform.port, context=platform.ssl_context(), timeout=60)
        self.connection.request(
            "POST", SERVICE + method, struct.pack(">BI", 0, len(body)) + body,
            {"Content-Type": "application/connect+json", "x-octelium-auth": token or token_of(platform, "admin")})
        self.reply = self.connection.getresponse()

    def next(self):
        """The next event; the end's message under "end"."""
        head = self.reply.read(5)
        assert len(head) == 5, head
        flags, length = struct.unpack(">BI", head)
        event = json.loads(self.reply.read(length))
        return {"end": event} if flags & 2 else event

    def events(self):
        while True:
            event = self.next()
            yield event
            if "end" in event:
                return

    def close(self):
        self.connection.close()


def stream(platform, method, message, token=None):
    """All events of a stream by curl over HTTP/2, where it ends by itself."""
    body = json.dumps(message).encode()
    with tempfile.NamedTemporaryFile() as file:
        file.write(struct.pack(">BI", 0, len(body)) + body)
        file.flush()
        done = subprocess.run(
            ["curl", "-sS", "--http2", "--cacert", platform.ca, "--data-binary", "@" + file.name,
             "-H", "content-type: application/connect+json",
             "-H", "x-octelium-auth: " + (token or token_of(platform, "admin")),
             f"https://localhost:{platform.port}{SERVICE}{method}"], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    events, data = [], done.stdout
    while data:
        flags, length = struct.unpack(">BI", data[:5])
        event = json.loads(data[5:5 + length])
        events.append({"end": event} if flags & 2 else event)
        data = data[5 + length:]
    return events


def users(platform):
    """An ordinary user with allow-all, and an auditor; their tokens."""
    if not hasattr(platform, "audit_users"):
        platform.ok("apply", os.path.join(ROOT, "testdata", "policies", "audit-log.yaml"), program="octeliumctl")
        made = {}
        for name, groups in (("plain", []), ("auditor", ["auditors"])):
            user = f"{name}-{int(time.time() * 1000) % 10**9}"
            text = f"kind: User\nmetadata: {{name: {user}}}\nspec:\n  type: WORKLOAD\n  groups: {json.dumps(groups)}\n"
            text += "  authorization: {policies: [allow-all]}\n"
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(text)
                file.flush()
                platform.ok("apply", file.name, program="octeliumctl")
            token = platform.ok("create", "credential", user, "--user", user).strip()
            made[name] = (user, token_of(platform, name, token))
        platform.audit_users = made
    return platform.audit_users


@test
def allow_all_does_not_open_the_log(platform):
    name, token = users(platform)["plain"]
    for method, message in (("List", {}), ("Get", {"sequence": 1}), ("Stats", {})):
        status, reply = call(platform, method, message, token)
        assert status == 403 and reply["code"] == "permission_denied", reply
        assert name in reply["message"] and "Group 'auditors'" in reply["message"], reply
    for method in ("Watch", "Verify", "Export"):
        events = stream(platform, method, {}, token)
        assert len(events) == 1 and events[0]["end"]["error"]["code"] == "permission_denied", events
    assert call(platform, "List", {}, "no-token")[0] == 401


@test
def an_auditor_reads_the_log_and_nothing_else(platform):
    name, token = users(platform)["auditor"]
    reply = ok(platform, "List", {"pageSize": 5}, token)
    assert len(reply["records"]) == 5, reply
    assert ok(platform, "Stats", {}, token)["lines"], "no lines"
    (decided,) = listed(platform, {"user": ["admin"], "reason": ["POLICY_MATCH"], "event": ["DECISION"]}, pageSize=1)
    explain = "/cordium.ext.v1.PolicyService/Explain"
    status, text = platform.curl(explain, json.dumps({"auditId": decided["id"]}), token)
    assert status == 200 and "matchAny" in text, (status, text)
    status, text = platform.curl(explain, json.dumps({"auditId": decided["id"], "user": "admin"}), token)
    assert status == 403 and "no administrator" in text, (status, text)
    plain = users(platform)["plain"][1]
    status, text = platform.curl(explain, json.dumps({"auditId": decided["id"]}), plain)
    assert status == 403 and "may not read the audit log" in text, (status, text)
    for path in ("octelium.api.main.cordium.v1.MainService/ListSpace", "octelium.api.main.core.v1.MainService/ListUser",
                 "octelium.api.main.user.v1.MainService/GetStatus", "cordium.ext.v1.RunService/ListRuns"):
        status, text = platform.curl("/" + path, "{}", token)
        assert status == 403 and "audit-log-only" in text, (path, status, text)


@test
def each_reading_of_the_log_is_in_the_log(platform):
    name, token = users(platform)["auditor"]
    ok(platform, "List", {"filter": {"rule": ["never-" + name]}}, token)
    lines = listed(platform, {"user": [name], "method": ["AuditService/List"], "event": ["END"]})
    told = json.loads(lines[0]["line"])["cordium"]["outcome"]
    assert json.loads(told["question"]) == {"filter": {"rule": ["never-" + name]}} and told["records"] == 0, told
    decisions = listed(platform, {"user": [name], "method": ["AuditService/List"], "event": ["DECISION"]})
    assert len(decisions) == len(lines), (len(decisions), len(lines))


@test
def what_was_just_done_is_found_at_once(platform):
    for i in range(20):
        user = f"fresh-{i}-{time.time_ns()}"
        platform.curl("/octelium.api.main.core.v1.MainService/GetUser", json.dumps({"name": user}),
                      token_of(platform, "admin"))
        found = ok(platform, "List", {"filter": {"text": user}, "pageSize": 1})["records"]
        assert user in found[0]["line"], found


@test
def a_line_comes_byte_for_byte(platform):
    files = {line["sequence"]: line for line in platform.audit_lines()}
    for record in ok(platform, "List", {"pageSize": 50, "order": "OLDEST_FIRST"})["records"]:
        parsed = json.loads(record["line"])
        assert parsed["sequence"] == int(record["sequence"])
        if parsed["sequence"] in files:
            assert parsed == files[parsed["sequence"]]


def user_of(line):
    """The name of who asked, or whose it is."""
    ref = line.get("entry", {}).get("common", {}).get("userRef") or line.get("cordium", {}).get("userRef")
    return ref.get("name", "") if ref else ""


@test
def filters_give_what_a_reading_of_the_whole_log_gives(platform):
    name, _ = users(platform)["plain"]
    lines = platform.audit_lines()
    upto = lines[-1]["sequence"]

    def at(line, *path):
        for key in path:
            line = line.get(key, {}) if isinstance(line, dict) else {}
        return line or None

    common = ("entry", "common")
    checks = [
        ({"user": [name]}, lambda l: user_of(l) == name),
        ({"user": ["admin"], "event": ["END"]},
         lambda l: user_of(l) == "admin" and at(l, "cordium", "event") == "END"),
        ({"decision": ["DENIED"]}, lambda l: at(l, *common, "status") == "DENIED"),
        ({"code": ["PERMISSION_DENIED", "NOT_FOUND"]},
         lambda l: (at(l, "cordium", "code") or at(l, "cordium", "refusal", "code")) in ("PERMISSION_DENIED", "NOT_FOUND")),
        ({"reason": ["PUBLIC_METHOD"]}, lambda l: at(l, *common, "reason", "type") == "PUBLIC_METHOD"),
        ({"kind": ["DaemonLog"]}, lambda l: l["kind"] == "DaemonLog"),
        ({"method": ["AuditService/Stats"]},
         lambda l: (at(l, "entry", "info", "grpc", "path") or "").endswith(".AuditService/Stats")),
        ({"peer": ["127.0.0.1"]}, lambda l: (at(l, "cordium", "peer") or "").startswith("127.0.0.1:")),
        ({"inWorkspace": False, "text": "\"method\":\"List\""}, lambda l: at(l, "entry", "info", "grpc", "method") == "List"),
        ({"except": [{"user": ["admin"]}, {"kind": ["DaemonLog"]}]},
         lambda l: user_of(l) != "admin" and l["kind"] != "DaemonLog"),
    ]
    for filter, matches in checks:
        expected = [l["sequence"] for l in lines if matches(l)]
        page = listed(platform, filter, before=upto + 1, order="OLDEST_FIRST", withoutLines=True)
        got = [int(r["sequence"]) for r in page if not audit_files.is_own(r)]
        assert got == expected[:len(got)], (filter, got[:5], expected[:5], len(got), len(expected))
        assert len(page) == 1000 or len(got) == len(expected), (filter, len(page), len(got), len(expected))


@test
def pages_join_without_a_seam(platform):
    upto = platform.audit_lines()[-1]["sequence"]
    for order, key in (("NEWEST_FIRST", "before"), ("OLDEST_FIRST", "after")):
        first = max(upto - 200, 0)
        seen, message = [], {"pageSize": 7, "order": order, "after": first, "before": upto + 1, "withoutLines": True}
        for _ in range(1000):
            reply = ok(platform, "List", message)
            seen += [int(r["sequence"]) for r in reply.get("records", [])]
            if reply.get("isComplete"):
                break
            message[key] = int(reply["next"])
        assert sorted(seen) == list(range(first + 1, upto + 1)), (order, len(seen), upto)
        assert seen == sorted(seen, reverse=order == "NEWEST_FIRST"), order


@test
def a_story_has_the_decision_the_end_and_the_run(platform):
    fixture.ensure(platform)
    status, text = platform.curl("/v1/run", json.dumps({"template": fixture.BOX, "argv": ["true"]}),
                                 token_of(platform, "admin"))
    assert status == 200, text
    run = json.loads(text)["runId"]
    by_run = ok(platform, "Get", {"runId": run})["records"]
    assert [r["event"] for r in by_run] == ["DECISION", "END"], by_run
    assert by_run[1]["outcome"] == "exited" and by_run[0]["method"].endswith("RunService/Run"), by_run
    for key in ({"requestId": by_run[0]["requestId"]}, {"id": by_run[0]["id"]}, {"sequence": by_run[1]["sequence"]}):
        assert ok(platform, "Get", key)["records"] == by_run, key
    status, reply = call(platform, "Get", {"requestId": "0" * 32})
    assert status == 404 and "List finds" in reply["message"], reply
    status, reply = call(platform, "Get", {})
    assert status == 400 and "one of" in reply["message"], reply


@test
def statistics_count_the_lines(platform):
    upto = platform.audit_lines()[-1]["sequence"]
    filter = {"to": json.loads(listed(platform, {"event": ["DECISION"]})[0]["line"])["metadata"]["createdAt"]}
    reply = ok(platform, "Stats", {"filter": filter, "by": ["USER", "DECISION", "RULE", "DAY"], "top": 1000})
    lines = [json.loads(r["line"]) for r in listed(platform, filter)]
    if len(lines) == 1000:
        return
    tables = {t["by"]: {r.get("key", ""): int(r["lines"]) for r in t["rows"]} for t in reply["tables"]}
    users_of = {}
    for line in lines:
        name = user_of(line)
        users_of[name] = users_of.get(name, 0) + 1
    assert tables["USER"] == users_of, (tables["USER"], users_of)
    assert sum(tables["DAY"].values()) == int(reply["lines"]) == len(lines), reply
    assert int(reply["allowed"]) == sum(
        l.get("cordium", {}).get("event") == "DECISION" and l["entry"]["common"]["status"] == "ALLOWED" for l in lines)
    assert "allow-all/allow" in tables["RULE"], tables
    assert upto


@test
def a_watch_follows_and_does_not_feed_itself(platform):
    mark = f"watched-{time.time_ns()}"
    watch = Stream(platform, "Watch", {"filter": {"text": mark, "except": [{"method": ["AuditService/Watch"]}]}})
    try:
        assert "position" in watch.next()
        for i in range(3):
            platform.curl("/octelium.api.main.core.v1.MainService/GetUser", json.dumps({"name": f"{mark}-{i}"}),
                          token_of(platform, "admin"))
            record = watch.next()["record"]
            assert f"{mark}-{i}" in record["line"], record
    finally:
        watch.close()
    own = eventually(lambda: [r for r in listed(platform, {"method": ["AuditService/Watch"], "text": mark, "event": ["END"]})])
    assert len(own) == 1 and json.loads(own[0]["line"])["cordium"]["outcome"]["records"] == 3, own


@test
def a_slow_watcher_gets_every_line(platform):
    first = platform.audit_lines()[-1]["sequence"]
    watch = Stream(platform, "Watch", {"fromSequence": 1})
    try:
        time.sleep(1)
        for _ in range(50):
            platform.curl("/octelium.api.main.core.v1.MainService/GetUser", "{\"name\": \"none\"}", token_of(platform, "admin"))
        last = platform.audit_lines()[-1]["sequence"]
        seen = []
        while not seen or seen[-1] < last:
            event = watch.next()
            if "record" in event:
                seen.append(int(event["record"]["sequence"]))
        assert seen[:last] == list(range(1, len(seen) + 1)) and last >= first + 50, (len(seen), last)
    finally:
        watch.close()


@test
def too_many_watches_of_one_user_are_refused(platform):
    watches = [Stream(platform, "Watch", {}) for _ in range(8)]
    try:
        for watch in watches:
            assert "position" in watch.next()
        ninth = Stream(platform, "Watch", {})
        end = ninth.next()["end"]
        assert end["error"]["code"] == "resource_exhausted" and "8 calls" in end["error"]["message"], end
    finally:
        for watch in watches:
            watch.close()
    assert eventually(lambda: "position" in Stream(platform, "Watch", {}).next())


@test
def a_watch_ends_with_the_right_to_it(platform):
    """When its session is revoked, and when its user leaves the Group of readers."""
    name, _ = users(platform)["auditor"]
    core = "/octelium.api.main.core.v1.MainService/"
    admin = token_of(platform, "admin")

    def watch():
        token = platform.ok("create", "credential", f"{name}-{time.monotonic_ns()}", "--user", name).strip()
        stream = Stream(platform, "Watch", {}, platform.access_token(token))
        assert "position" in stream.next()
        return stream

    def end_of(stream):
        return next(event["end"] for event in stream.events() if "end" in event)["error"]

    def sessions():
        items = json.loads(platform.curl(core + "ListSession", json.dumps({"userRef": {"name": name}}), admin)[1])["items"]
        return {item["metadata"]["uid"] for item in items}

    before = sessions()
    stream = watch()
    (uid,) = sessions() - before
    assert platform.curl(core + "DeleteSession", json.dumps({"uid": uid}), admin)[0] == 200
    assert end_of(stream)["code"] == "unauthenticated"
    stream = watch()
    user = json.loads(platform.curl(core + "GetUser", json.dumps({"name": name}), admin)[1])
    groups, user["spec"]["groups"] = user["spec"]["groups"], []
    assert platform.curl(core + "UpdateUser", json.dumps(user), admin)[0] == 200
    error = end_of(stream)
    assert error["code"] == "permission_denied" and "Group 'auditors'" in error["message"], error
    user["spec"]["groups"] = groups
    assert platform.curl(core + "UpdateUser", json.dumps(user), admin)[0] == 200
    ends = [record for record in listed(platform, {"method": ["AuditService/Watch"], "event": ["END"]})
            if record["code"] in ("PERMISSION_DENIED", "UNAUTHENTICATED")]
    reasons = [json.loads(record["line"])["cordium"].get("endReason") for record in ends]
    assert {"SESSION_GONE", "NOT_ALLOWED"} <= set(reasons), ends


@test
def the_log_is_verified_by_the_server(platform):
    def verified():
        return next(e["verdict"] for e in stream(platform, "Verify", {}) if "verdict" in e)

    # A checkpoint comes after 60 seconds, or 1000 lines.
    assert eventually(lambda: int(verified().get("checkpoints", 0)) > 0, 75, 3)
    verdict = verified()
    assert verdict["isIntact"] and int(verdict["lines"]) > 0, verdict
    again = stream(platform, "Verify", {"anchor": verdict["lastCheckpoint"]})
    assert next(e["verdict"] for e in again if "verdict" in e)["isIntact"], again
    sequence, _, digest = verdict["lastCheckpoint"].partition(":")
    wrong = stream(platform, "Verify", {"anchor": sequence + ":" + digest[::-1]})
    verdict = next(e["verdict"] for e in wrong if "verdict" in e)
    assert not verdict.get("isIntact") and verdict["fault"] == "ANCHOR" and verdict["sequence"] == sequence, verdict


@test
def an_export_verifies_without_the_server(platform):
    events = stream(platform, "Export", {})
    assert events[0]["begin"]["isWhole"] and "end" in events[-1] and "end" in events[-2], events[-2:]
    lines = b"".join(base64.b64decode(e["lines"]) for e in events if "lines" in e)
    counts = events[-2]["end"]
    assert int(counts["lines"]) == lines.count(b"\n") and int(counts["lastSequence"]) == lines.count(b"\n"), counts
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "log"))
        with open(os.path.join(folder, "log", "audit.jsonl"), "wb") as file:
            file.write(lines)
        with open(os.path.join(folder, "audit.pub"), "w") as file:
            file.write(events[0]["begin"]["publicKey"])
        words = [os.path.join(platform.bin, "cordium-gateway"), "audit", "verify", "--dir", os.path.join(folder, "log"),
                 "--public-key", os.path.join(folder, "audit.pub"), "-o", "json"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0 and json.loads(done.stdout)["intact"], done
    some = stream(platform, "Export", {"filter": {"user": ["admin"], "event": ["END"]}})
    assert not some[0]["begin"].get("isWhole"), some[0]
    given = b"".join(base64.b64decode(e["lines"]) for e in some if "lines" in e).splitlines()
    assert given and all(json.loads(line)["cordium"]["event"] == "END" for line in given), given[:1]
    whole = set(lines.splitlines())
    assert all(line in whole for line in given if json.loads(line)["sequence"] <= int(counts["lastSequence"]))


@test
def mistakes_are_named(platform):
    for method, message, part in [
        ("List", {"pageSize": 1001}, "page_size: 1001, at most 1000"),
        ("List", {"filter": {"text": "ab"}}, "filter.text: 2 bytes"),
        ("List", {"filter": {"decision": ["MAYBE"]}}, "'MAYBE' is neither ALLOWED nor DENIED"),
        ("List", {"filter": {"user": [""]}}, "filter.user: an empty value"),
        ("List", {"filter": {"user": ["u"] * 101}}, "101 values, at most 100"),
        ("List", {"filter": {"except": [{"except": [{}]}]}}, "an exception has none"),
        ("List", {"before": 5, "after": 5}, "before: 5"),
        ("List", {"filter": {"users": ["u"]}}, "did you mean 'user'"),
        ("Stats", {"filter": {"text": "abc"}}, "use List"),
        ("Stats", {"top": 1001}, "at most 1000 rows"),
    ]:
        status, reply = call(platform, method, message)
        assert status == 400 and part in reply["message"], (method, message, status, reply)
    events = stream(platform, "Verify", {"anchor": "12"})
    assert events[0]["end"]["error"]["code"] == "invalid_argument", events


@test
def many_readers_at_once_do_not_keep_others_waiting(platform):
    token = token_of(platform, "admin")
    slowest, refused = [], []

    def read():
        for _ in range(10):
            status, reply = call(platform, "Stats", {}, token)
            refused.append(status == 429 or reply.get("code") == "resource_exhausted")

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        begun = time.monotonic()
        status, _ = platform.curl("/octelium.api.main.user.v1.MainService/GetStatus", "{}", token)
        assert status == 200
        slowest.append(time.monotonic() - begun)
    assert max(slowest) < 5, max(slowest)
    assert not all(refused)


if __name__ == "__main__":
    main()
