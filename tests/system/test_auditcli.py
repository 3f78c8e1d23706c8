"""`cordium audit`: what reviewers see of the log, on a terminal and in a pipe."""

import fcntl
import hashlib
import json
import os
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time

import audit_files
import fixture
from daemons import Daemons, OtherSettings, root_of_tree
from harness import eventually, main, test

COLOUR = re.compile(r"\x1b\[[0-9]*m")
OFFLINE = os.path.join(root_of_tree(), "tests", "audit", "verify-offline.sh")

DENY_ROOT = """
apiVersion: core/v1
kind: Policy
metadata: {name: %s}
spec:
  rules:
    - name: never root
      effect: DENY
      priority: -1
      condition: {match: has(ctx.run) && ctx.run.isRoot}
"""


def at(line, *path):
    """What is there in the line; None when it has no such member."""
    for key in path:
        line = line.get(key) if isinstance(line, dict) else None
    return line


def user_of(line):
    """The name of who asked, or whose it is."""
    return at(line, "entry", "common", "userRef", "name") or at(line, "cordium", "userRef", "name")


class Scene:
    """What happened before the reviewers came; made once."""

    made = None

    def __init__(self, platform):
        fixture.ensure(platform)
        self.user, self.token = fixture.new_user(platform, "alice")
        self.policy = self.user + "-guards"
        self.older = [x for x in platform.audit_lines() if user_of(x) == "admin" and at(x, "cordium", "policySetVersion")][-1]
        platform.ok("apply", "-", stdin=DENY_ROOT % self.policy)
        platform.ok("update", "user", self.user, "-f", "-",
                    stdin=f"spec: {{type: WORKLOAD, authorization: {{policies: [allow-all, {self.policy}]}}}}")
        platform.ok("create", "membership", "--space", fixture.SPACE, "--user", self.user)
        self.start = len(self.lines(platform))
        self.run(platform, "exit 3")
        self.run(platform, "x=x; while :; do x=$x$x; done", "--memory", "20")
        done = self.run(platform, "id", "--root")
        assert done.returncode == 1 and "never root" in done.stderr, done
        assert platform.curl("/octelium.api.main.cordium.v1.MainService/ListSpace")[0] == 401
        with platform.sdk(self.token) as client:
            workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
            workspace.exec("cordium get spaces 2>&1; /opt/cordium/bin/cordium get spaces", timeout=30)
            workspace.delete()

        def ended():
            outcomes = [x["cordium"]["outcome"] for x in self.lines(platform)[self.start:] if "outcome" in x["cordium"]]
            return "oom_killed" in [o.get("outcome") for o in outcomes] and outcomes

        assert eventually(ended), self.lines(platform)[self.start:]

    @classmethod
    def of(cls, platform):
        cls.made = cls.made or cls(platform)
        return cls.made

    def lines(self, platform):
        return [x for x in platform.audit_lines() if user_of(x) == self.user]

    def run(self, platform, code, *options):
        return platform.cli("run-code", "--template", fixture.BOX, "--timeout", "20", "--language", "sh", *options,
                            "-f", "-", token=self.token, stdin=code)

    def denied(self, platform):
        return next(x for x in self.lines(platform) if at(x, "entry", "common", "status") == "DENIED")

    def ended(self, platform, outcome, which=0):
        """The end of the first Run with that outcome; -1: of the last."""
        def ends():
            return [x for x in self.lines(platform)
                    if x["cordium"].get("outcome", {}).get("outcome") == outcome and "runId" in x["cordium"]["outcome"]]

        assert eventually(ends), self.lines(platform)
        return ends()[which]


def records(text):
    return [json.loads(line) for line in text.splitlines()]


def sequences(text):
    return [record["sequence"] for record in records(text)]


def on_terminal(platform, *words, columns=100, env=None, keys=None):
    """What the client shows on a terminal of that width; its exit code. `keys` are pressed when there are
    two rows."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen([os.path.join(platform.bin, "cordium"), *words], stdin=slave, stdout=slave, stderr=slave,
                               env={**platform.cli_env(), "TERM": "xterm", **(env or {})}, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(slave)
    shown, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                shown += os.read(master, 65536)
            except OSError:
                break
        if keys and shown.count(b"\n") > 2:
            os.write(master, keys)
            keys = None
    os.close(master)
    return shown.decode().replace("\r\n", "\n"), process.wait(timeout=10)


@test
def a_terminal_gets_a_table_with_colours_that_fits(platform):
    scene = Scene.of(platform)
    for columns in (80, 132):
        shown, code = on_terminal(platform, "audit", "list", "--user", scene.user, columns=columns)
        assert code == 0, shown
        assert re.search(r"\x1b\[31mDENIED\x1b\[0m", shown) and re.search(r"\x1b\[32mALLOWED\x1b\[0m", shown), shown
        plain = COLOUR.sub("", shown).splitlines()
        assert plain[0].split() == ["Line", "Time", "User", "Method", "Decision", "Rule", "Result", "Took", "Target"]
        assert "\x1b" not in "".join(plain) and max(map(len, plain)) <= columns, plain
        assert any("exited 3" in line for line in plain) and any("oom_k" in line for line in plain), plain


@test
def nobody_who_wants_no_colours_gets_them(platform):
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        shown, _ = on_terminal(platform, "audit", "list", "-n", "3", env=env)
        assert "Decision" in shown and "\x1b" not in shown, shown


@test
def a_pipe_gets_the_logs_own_lines(platform):
    scene = Scene.of(platform)
    out = platform.ok("audit", "list", "--user", scene.user, "--all")
    log = [line.decode() for line in audit_files.text(platform.audit_folder).split(b"\n") if not audit_files.is_torn(line)]
    mine = [line for line in log if user_of(json.loads(line)) == scene.user]
    assert out.splitlines() == mine[::-1], (len(out.splitlines()), len(mine))
    oldest = platform.ok("audit", "list", "--user", scene.user, "--all", "--oldest-first")
    assert oldest.splitlines() == mine
    as_json = json.loads(platform.ok("audit", "list", "--user", scene.user, "--all", "-o", "json"))
    assert as_json == [json.loads(line) for line in mine[::-1]]
    assert json.loads(platform.ok("audit", "list", "--user", "nobody-of-that-name", "-o", "json")) == []
    as_yaml = platform.ok("audit", "list", "--user", scene.user, "-n", "3", "-o", "yaml")
    assert as_yaml.count("---\n") == 3, as_yaml
    assert [int(n) for n in re.findall("^sequence: ([0-9]+)$", as_yaml, re.M)] == [x["sequence"] for x in as_json[:3]], as_yaml


@test
def conditions_choose_lines(platform):
    scene = Scene.of(platform)
    mine = scene.lines(platform)

    def listed(*words):
        return set(sequences(platform.ok("audit", "list", "--all", "--user", scene.user, *words)))

    def those(check):
        return {x["sequence"] for x in mine if check(x)}

    every = those(lambda x: True)
    denied = those(lambda x: at(x, "entry", "common", "status") == "DENIED")
    assert denied and listed("--decision", "denied") == denied
    assert listed("--decision", "denied", "--decision", "allowed") == those(lambda x: "entry" in x)
    assert listed("--policy", scene.policy) == listed("--rule", "never root") == denied
    assert listed("--outcome", "oom_killed") == those(lambda x: x["cordium"].get("outcome", {}).get("outcome") == "oom_killed") != set()
    assert listed("--code", "permission-denied") >= denied
    assert listed("--event", "end") == those(lambda x: x["cordium"]["event"] == "END") != set()
    assert listed("--in-workspace") == those(lambda x: at(x, "cordium", "inWorkspace")) != set()
    assert listed("--in-workspace=no") | listed("--in-workspace") == every
    assert listed("--space", fixture.SPACE) == those(lambda x: x["cordium"].get("spaceRef", {}).get("name") == fixture.SPACE) != set()
    assert listed('"asRoot":true') == those(lambda x: x["cordium"].get("run", {}).get("asRoot")) != set()
    assert listed("--method", "Exec", "--method", "RunService/RunStream") == \
        those(lambda x: at(x, "entry", "info", "grpc", "method") in ("Exec", "RunStream")) != set()
    assert listed("--kind", "WorkspaceLog") == those(lambda x: x["kind"] == "WorkspaceLog") != set()
    middle = mine[len(mine) // 2]
    moment = middle["metadata"]["createdAt"][:23]
    assert listed("--until", moment) | listed("--since", moment) == every
    assert listed("--until", moment) & listed("--since", moment) == set()
    assert middle["sequence"] in listed("--since", moment) and listed("--since", "1h") == every
    assert listed("--since", "yesterday", "--until", "today") == those(
        lambda x: x["metadata"]["createdAt"][:10] < time.strftime("%Y-%m-%d", time.gmtime()))


@test
def wrong_values_are_wrong_command_lines(platform):
    for words, text in ((("--decision", "deny"), "--decision 'deny': allowed or denied"),
                        (("--since", "soon"), "--since 'soon': expected how long ago"),
                        (("--since", "1h", "--until", "2h"), "--since is not before --until"),
                        (("--outcome", "oom"), "oom_killed"), (("ab",), "3 to 200 bytes"),
                        (("--event", "ended"), "--event 'ended': DECISION, END, RUN_END"),
                        (("--since", "1901-01-01"), "--since '1901-01-01': no time between 1970 and 2262"),
                        (("-n", "0"), "-n 0: there is nothing to list"),
                        (("-n", "3", "--all"), "-n and --all exclude each other")):
        done = platform.cli("audit", "list", "--server", "127.0.0.1:1", *words)
        assert done.returncode == 64 and text in done.stderr, (words, done)
    done = platform.cli("audit", "stats", "--by", "week")
    assert done.returncode == 1 and "--by 'week': one of decision, reason" in done.stderr, done
    done = platform.cli("audit", "stats", "--top", "0")
    assert done.returncode == 64 and "--top 0" in done.stderr, done
    assert platform.ok("audit", "tail", "-n", "0") == ""
    done = platform.cli("audit", "show", "xyz")
    assert done.returncode == 1 and "'xyz' is no id" in done.stderr, done


@test
def a_story_is_the_same_by_each_of_its_ids(platform):
    end = Scene.of(platform).ended(platform, "oom_killed")
    ids = (str(end["sequence"]), end["metadata"]["id"], end["cordium"]["requestID"], end["cordium"]["outcome"]["runId"])
    stories = {id: platform.ok("audit", "show", id) for id in ids}
    assert len(set(stories.values())) == 1, stories
    story = stories[ids[0]]
    assert platform.ok("audit", "show", ids[1], "-o", "jsonl").splitlines()[-1] in audit_files.text(platform.audit_folder).decode()
    for text in (Scene.of(platform).user, "RunService/RunStream", "asked, allowed", "program       oom_killed", "memory 20 MiB",
                 "(set by caller)", "(set by default)", "isolation", "seccomp", "command", end["cordium"]["run"]["commandSHA256"],
                 "policy 'allow-all'", "memory peak", "request       " + ids[2]):
        assert text in story, (text, story)
    shown, _ = on_terminal(platform, "audit", "show", ids[0], columns=72)
    assert max(map(len, COLOUR.sub("", shown).splitlines())) <= 72, shown


@test
def text_from_outside_does_not_command_the_terminal(platform):
    """Names and paths that a program or its caller chose, and an answer that quotes them."""
    scene = Scene.of(platform)
    evil = '/\x1b[2J\x1b]52;c;ZWNobyBvd25lZA==\x07","status":"ALLOWED"}\n{"x":"\u202eend\u009b2J'
    before = len(scene.lines(platform))
    name = platform.ok("run", "--template", fixture.BOX, token=scene.token).strip()
    platform.cli("exec", "-w", evil, "-e", "A\x1b[2J=1", name, "true", token=scene.token)
    platform.ok("delete", "workspace", name, token=scene.token)
    line = next(x for x in scene.lines(platform)[before:] if at(x, "entry", "info", "grpc", "method") == "Exec")
    for words in (("list", "--user", scene.user, "-n", "20"), ("show", str(line["sequence"])),
                  ("list", "--user", scene.user, "-n", "20", "-o", "jsonl"), ("list", "--user", scene.user, "-o", "yaml"),
                  ("explain", str(line["sequence"])), ("tail", "--user", scene.user)):
        shown, code = on_terminal(platform, "audit", *words, columns=300)
        plain = COLOUR.sub("", shown)
        assert code == 0 and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", plain), (words, plain)
    assert "\\u001b" in on_terminal(platform, "audit", "show", str(line["sequence"]), columns=300)[0]
    done = platform.cli("get", "space", evil)
    assert done.returncode == 1 and not re.search("[\x1b\u202e\u009b]", done.stderr), done


@test
def an_explanation_is_of_then_and_of_now(platform):
    scene = Scene.of(platform)
    denied = str(scene.denied(platform)["sequence"])
    platform.ok("apply", "-", stdin=(DENY_ROOT % scene.policy).replace("never root", "really never root"))
    try:
        out = platform.ok("audit", "explain", denied)
        assert "Under the policies of then" in out and "rule #0 'never root'" in out, out
        assert "Under the policies of now" in out and "really never root" in out and "otherwise" in out, out
        explained = json.loads(platform.ok("audit", "explain", denied, "-o", "json"))
        assert explained["then"]["rule"] == "never root" and explained["isChanged"], explained
        # Of before the policy, which is attached to somebody now.
        out = platform.ok("audit", "explain", str(scene.older["sequence"]))
        assert "Under the policies of then" in out and "cannot be told" not in out, out
    finally:
        platform.ok("apply", "-", stdin=DENY_ROOT % scene.policy)
    gone, token = fixture.new_user(platform, "gone")
    platform.ok("get", "spaces", token=token)
    line = platform.ok("audit", "list", "--user", gone, "--reason", "policy_match", "--event", "decision", "-n", "1")
    platform.ok("delete", "user", gone)
    done = platform.cli("audit", "explain", str(json.loads(line)["sequence"]))
    assert done.returncode == 1 and "is gone" in done.stderr and "it was allowed (POLICY_MATCH) under version" in done.stderr, done
    nobody = platform.ok("audit", "list", "--reason", "unauthenticated", "--event", "decision", "-n", "1")
    done = platform.cli("audit", "explain", str(json.loads(nobody)["sequence"]))
    assert done.returncode == 1 and "no policy was asked" in done.stderr and "denied as UNAUTHENTICATED" in done.stderr, done
    daemon = next(x for x in platform.audit_lines() if x["kind"] == "DaemonLog")
    done = platform.cli("audit", "explain", str(daemon["sequence"]))
    assert done.returncode == 1 and "nothing to explain" in done.stderr, done


@test
def numbers_are_those_of_the_lines(platform):
    scene = Scene.of(platform)
    mine = scene.lines(platform)
    stats = json.loads(platform.ok("audit", "stats", "--user", scene.user, "--by", "method", "--by", "rule", "-o", "json"))
    methods = {row.get("key"): int(row["lines"]) for row in stats["tables"][0]["rows"]}
    expected = {}
    for x in mine:
        method = at(x, "entry", "info", "grpc", "method") or ""
        expected[method] = expected.get(method, 0) + 1
    assert {(k or "").rpartition("/")[2]: n for k, n in methods.items()} == expected, (methods, expected)
    assert int(stats["lines"]) == len(mine), stats
    rules = {row.get("key"): row for row in stats["tables"][1]["rows"]}
    assert rules[scene.policy + "/never root"]["denied"] == "1", rules
    out = platform.ok("audit", "stats", "--since", "1h")
    for title in ("By rule", "By reason", "By user", "By outcome", "By code", "By hour"):
        assert title in out, out
    out = platform.ok("audit", "stats", "--since", "1h", "--user", scene.user, "--by", "rule")
    assert re.search(r"^ *[0-9]+ +1  " + re.escape(scene.policy + "/never root") + "$", out, re.M), out


@test
def verification_names_the_first_bad_line(platform):
    daemons = Daemons(platform)
    daemons.stop("gateway")  # leaves a checkpoint
    daemons.up()
    out = platform.ok("audit", "verify")
    assert out.startswith("intact\n") and "cordium-gateway audit verify" in out, out
    anchor = re.search("^anchor (.*)$", out, re.M).group(1)
    platform.ok("audit", "verify", "--anchor", anchor)
    done = platform.cli("audit", "verify", "--anchor", anchor.replace(":", "0:", 1))
    assert done.returncode != 0, done
    path = os.path.join(platform.audit_folder, "audit.jsonl")
    with open(path, "rb") as file:
        text = file.read()
    lines = text.split(b"\n")
    number = len(lines) // 2
    place = sum(len(line) + 1 for line in lines[:number]) + lines[number].rindex(b'"') - 1
    with open(path, "r+b") as file:
        try:
            os.pwrite(file.fileno(), bytes([text[place] ^ 1]), place)
            done = platform.cli("audit", "verify")
            as_json = platform.cli("audit", "verify", "-o", "json")
        finally:
            os.pwrite(file.fileno(), text[place:place + 1], place)
    assert done.returncode == 2 and done.stdout.startswith("NOT INTACT: BROKEN_CHAIN: audit.jsonl, line"), done
    assert as_json.returncode == 2 and not json.loads(as_json.stdout).get("isIntact"), as_json
    shown, code = on_terminal(platform, "audit", "verify")
    assert code == 0 and "intact" in shown, shown


@test
def an_export_is_the_log_and_proves_itself(platform):
    scene = Scene.of(platform)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "audit.jsonl")
        done = platform.cli("audit", "export", "--into", path, "--with-key")
        assert done.returncode == 0 and "the whole log" in done.stderr, done
        with open(path, "rb") as file:
            text = file.read()
        assert audit_files.text(platform.audit_folder).startswith(text) and text
        assert os.stat(path).st_mode & 0o777 == 0o600 and sorted(os.listdir(folder)) == ["audit.jsonl", "audit.jsonl.pub"]
        offline = subprocess.run(["bash", OFFLINE, folder, path + ".pub"], capture_output=True, text=True, timeout=120)
        ours = subprocess.run([os.path.join(platform.bin, "cordium-gateway"), "audit", "verify", "--dir", folder,
                               "--public-key", path + ".pub"], capture_output=True, text=True, timeout=60)
        assert offline.returncode == ours.returncode == 0, (offline, ours)
        assert offline.stdout.splitlines()[0] == ours.stdout.splitlines()[0] == "intact"
    assert sequences(platform.ok("audit", "export", "--user", scene.user)) == [x["sequence"] for x in scene.lines(platform)]
    done = platform.cli("audit", "export", "--with-key")
    assert done.returncode == 1 and "--into" in done.stderr, done


@test
def an_export_that_fails_leaves_what_was_there(platform):
    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "copy")
        with open(path, "w") as file:
            file.write("of before")
        done = subprocess.run([os.path.join(platform.bin, "cordium"), "audit", "export", "--into", path],
                              env=platform.cli_env(), capture_output=True, text=True, timeout=60, restore_signals=False,
                              preexec_fn=little_room)
        assert done.returncode == 1 and "cannot write" in done.stderr and path in done.stderr, done
        with open(path) as file:
            assert file.read() == "of before"
        assert os.listdir(folder) == ["copy"]
        os.mkfifo(path + ".fifo")
        done = platform.cli("audit", "export", "--into", path + ".fifo")
        assert done.returncode == 1 and "no regular file" in done.stderr, done
        done = platform.cli("audit", "export", "--into", folder + "/nowhere/copy")
        assert done.returncode == 1 and "nowhere" in done.stderr, done


@test
def following_survives_the_gateway_and_ends_with_an_interrupt(platform):
    scene, daemons = Scene.of(platform), Daemons(platform)
    process = subprocess.Popen([os.path.join(platform.bin, "cordium"), "audit", "tail", "-f", "-n", "1", "--user", scene.user,
                                "--event", "DECISION"],
                               env=platform.cli_env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        first = json.loads(process.stdout.readline())
        platform.ok("get", "spaces", token=scene.token)
        second = json.loads(process.stdout.readline())
        daemons.stop("gateway")
        daemons.up()
        for _ in range(3):
            platform.ok("get", "spaces", token=scene.token)
        third = [json.loads(process.stdout.readline()) for _ in range(3)]
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert "asking again" in err, err
    seen = [first["sequence"], second["sequence"], *[x["sequence"] for x in third], *sequences(out)]
    since = [x["sequence"] for x in scene.lines(platform)
             if x["sequence"] >= seen[0] and x["cordium"]["event"] == "DECISION"]
    assert seen == since[:len(seen)] and len(seen) >= 5, (seen, since)
    shown, code = on_terminal(platform, "audit", "tail", "-f", "-n", "2", keys=b"\x03")
    assert code == 0 and "Decision" in shown, shown


def log_of(folder, platform):
    """A copy of the log and of its key; the file that is written to."""
    shutil.copytree(platform.audit_folder, folder + "/log", ignore=shutil.ignore_patterns("index*"))
    shutil.copy(os.path.join(platform.folder, "gateway", "audit.pub"), folder + "/audit.pub")
    return folder + "/log/audit.jsonl"


def offline(folder, *more):
    return subprocess.run(["bash", OFFLINE, folder + "/log", folder + "/audit.pub", *more], capture_output=True, text=True,
                          timeout=120)


TORN = b'{"sequence":4711,"prev"\n'  # as a power cut leaves a line


def gap_after(torn, sequence, count):
    """The record that accounts for it."""
    gap = {"reason": "TORN", "lines": count, "bytes": len(torn), "sha256": hashlib.sha256(torn).hexdigest()}
    return json.dumps({"sequence": sequence, "prev": hashlib.sha256(torn[:-1]).hexdigest(), "apiVersion": "cordium.ext/v1",
                       "kind": "AuditGap", "gap": gap}).encode() + b"\n"


@test
def standard_tools_alone_find_what_was_changed(platform):
    Scene.of(platform)
    daemons = Daemons(platform)
    daemons.stop("gateway")  # leaves a checkpoint
    daemons.up()
    with tempfile.TemporaryDirectory() as folder:
        path = log_of(folder, platform)
        done = offline(folder)
        assert done.returncode == 0 and done.stdout.startswith("intact\n"), done
        anchor = re.search("^anchor (.*)$", done.stdout, re.M).group(1)
        assert offline(folder, anchor).returncode == 0
        with open(path, "rb") as file:
            lines = file.read().splitlines(keepends=True)
        number = len(lines) // 2
        checkpoint = max(i for i, line in enumerate(lines) if b'"kind":"AuditCheckpoint"' in line)
        first = json.loads(lines[0])["sequence"]
        changed = {
            "a letter": lines[:number] + [lines[number].replace(b"createdAt", b"createdBt")] + lines[number + 1:],
            "a line less": lines[:number] + lines[number + 1:],
            "a line more": lines[:number] + [lines[number]] + lines[number:],
            "two in another order": lines[:number] + [lines[number + 1], lines[number]] + lines[number + 2:],
            "the beginning": lines[1:],
            "no line": lines[:number] + [b"torn\n"] + lines[number + 1:],
            "a signature": lines[:checkpoint] + [re.sub(rb'"signature":"(.)', lambda m: b'"signature":"' + (b"A" if m[1] != b"A" else b"B"),
                                                        lines[checkpoint])],
        }
        for what, text in changed.items():
            with open(path, "wb") as file:
                file.writelines(text)
            done = offline(folder)
            assert done.returncode == 2 and done.stdout.startswith("NOT INTACT: "), (what, done)
            if what == "a letter":
                assert f"audit.jsonl, line {number + 2} (sequence {first + number + 1})" in done.stdout, done
        with open(path, "wb") as file:
            file.writelines(lines[:checkpoint])
        done = offline(folder, anchor)
        assert done.returncode == 2 and "anchor" in done.stdout, done
        last = json.loads(lines[-1])["sequence"]
        for count in (2, 1):
            with open(path, "wb") as file:
                file.writelines(lines + [TORN, gap_after(TORN, last + 2, count), b'{"sequence":'])
            done = offline(folder)
            assert done.returncode == (0 if count == 1 else 2), (count, done)
        assert "1 lines were torn" in done.stdout, done
        with open(path, "wb") as file:
            file.writelines(lines + [b"\0"])  # what a crash leaves
        assert offline(folder).returncode == 0, offline(folder)
        with open(path, "wb") as file:
            file.writelines(lines)
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", folder + "/other"], check=True)
        subprocess.run(["openssl", "pkey", "-in", folder + "/other", "-pubout", "-out", folder + "/audit.pub"], check=True)
        done = offline(folder)
        assert done.returncode == 2 and "key that was not given" in done.stdout, done
        os.remove(folder + "/audit.pub")
        assert offline(folder).returncode == 1


@test
def a_log_without_a_line_proves_nothing(platform):
    with tempfile.TemporaryDirectory() as folder:
        path = log_of(folder, platform)
        for name in os.listdir(folder + "/log"):
            os.remove(os.path.join(folder, "log", name))
        with open(path, "wb"):
            pass
        done = offline(folder)
        assert done.returncode == 1 and "intact" not in done.stdout, done


@test
def every_command_of_the_reviewers_page_works(platform):
    """As it is written there, but for names and numbers."""
    scene = Scene.of(platform)
    with open(os.path.join(root_of_tree(), "gateway", "audit", "README.md")) as file:
        page = file.read()
    commands = re.findall(r"^    (cordium audit .*?)(?:  +#.*)?$", page, re.M)
    commands += re.findall(r"`(cordium audit [^`]*[A-Z0-9-]{6}[^`]*|cordium audit list \"[^`]*)`", page)
    assert len(commands) >= 18, commands
    names = {"alice": scene.user, "tools.cordium": fixture.SPACE, "4711": str(scene.denied(platform)["sequence"])}
    # What there need not be on a platform that is a minute old.
    may_be_empty = ("--until today", "NetworkLog", "sha256sum", "--in-workspace", "replay", "--with-key", "LOST")
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/copy")
        with open(folder + "/main.py", "w") as file:
            file.write("exit 3")
        env = dict(platform.cli_env(), PATH=platform.bin + ":" + os.environ["PATH"])
        for command in commands:
            if "replay" in command:
                continue  # has a test of its own
            for name, ours in names.items():
                command = command.replace(name, ours)
            done = subprocess.run(["bash", "-o", "pipefail", "-c", command], env=env, cwd=folder, capture_output=True,
                                  text=True, timeout=120, stdin=subprocess.DEVNULL)
            assert done.returncode == 0, (command, done)
            assert done.stdout or any(part in command for part in may_be_empty), command


def members(node, path=()):
    """The names of all members, as paths; of maps with names of limits as keys, the map."""
    if isinstance(node, list):
        for item in node:
            yield from members(item, path)
    elif isinstance(node, dict) and path[-1:] != ("limits",):
        for name, value in node.items():
            if not name.endswith("Ref"):
                yield from members(value, (*path, name))
            yield (*path, name)


@test
def every_field_is_on_the_reviewers_page(platform):
    Scene.of(platform)
    with open(os.path.join(root_of_tree(), "gateway", "audit", "README.md")) as file:
        known = set(re.findall(r"[A-Za-z0-9]+", " ".join(re.findall("`([^`]*)`", file.read()))))
    found = {}
    for line in audit_files.text(platform.audit_folder).split(b"\n")[:-1]:
        record = {} if audit_files.is_torn(line) else json.loads(line)
        for path in members(record):
            # Those of usage, tombstones and gaps are told together, with where to read more.
            if not {"usage", "tombstone", "gap"} & set(path[:-1]):
                found[path[-1]] = ".".join(path)
    assert len(found) > 60, found
    missing = sorted(path for name, path in found.items() if name not in known)
    assert not missing, missing


@test
def a_replay_tells_what_differs(platform):
    scene = Scene.of(platform)
    with OtherSettings(platform, "runs:\n  keepInputs: true\n"):
        scene.run(platform, "echo the same; exit 3")
        same = scene.ended(platform, "exited", -1)["cordium"]["outcome"]["runId"]
        scene.run(platform, "cat /proc/uptime")
        other = scene.ended(platform, "exited", -1)["cordium"]["outcome"]["runId"]
        done = platform.cli("audit", "replay", same, token=scene.token)
        assert done.returncode == 0 and done.stdout.startswith("The same result\n"), done
        assert same in done.stdout and "exited with 3" in done.stdout, done
        done = platform.cli("audit", "replay", other, token=scene.token)
        assert done.returncode == 2 and done.stdout.startswith("Another result\n"), done
        assert re.search("^What +Then +Now$", done.stdout, re.M) and re.search("^stdout ", done.stdout, re.M), done
        done = platform.cli("audit", "replay", other, "-o", "json", token=scene.token)
        assert done.returncode == 2 and "stdout" in [d["what"] for d in json.loads(done.stdout)["differences"]], done
    done = platform.cli("audit", "replay", "00000000-0000-4000-8000-000000000000", token=scene.token)
    assert done.returncode == 1 and "NOT_FOUND" in done.stderr, done


@test
def others_do_not_read_the_log(platform):
    scene = Scene.of(platform)
    for words in (("list",), ("tail",), ("show", "1"), ("stats",), ("verify",), ("export",)):
        done = platform.cli("audit", *words, token=scene.token)
        assert done.returncode == 1 and "PERMISSION_DENIED" in done.stderr and "auditors" in done.stderr, (words, done)


if __name__ == "__main__":
    main()
