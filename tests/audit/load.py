"""Clients that work while daemons die: the real SDK and curl. Each tells a ledger what it saw with its own
eyes, so that the audit log can be held against it later."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import threading
import time

import fixture
from cordium import AccessToken, Cordium, CordiumError
from h2.exceptions import ProtocolError

MAIN = "/octelium.api.main.cordium.v1.MainService/"
CORE = "/octelium.api.main.core.v1.MainService/"
POLICY = "/cordium.ext.v1.PolicyService/"
RUNS = "/cordium.ext.v1.RunService/"

# What a client may be told while daemons come and go; anything else is a fault.
SDK_CODES = {"UNAVAILABLE", "CANCELLED", "CONNECTION_ERROR", "TIMEOUT", "DEADLINE_EXCEEDED"}
# The workspace was stopped by the death of a daemon, or the first of two attempts had its effect.
SDK_CODES_AFTER_A_KILL = {"FAILED_PRECONDITION", "NOT_FOUND", "WORKSPACE_FAILED", "WORKSPACE_STOPPED"}
# curl: connection refused, HTTP/2 stream cut, TLS cut, nothing received, reset, and our own --max-time.
CURL_CODES = {7, 16, 18, 28, 35, 52, 55, 56, 92}


def is_excused(error):
    if error.code == "COMMAND_FAILED":  # an upload in the middle
        return "executor" in str(error)
    return error.code in SDK_CODES | SDK_CODES_AFTER_A_KILL


class Ledger:
    """What clients saw. All of it is written under one lock."""

    def __init__(self):
        self.lock = threading.Lock()
        self.workspaces = {}  # uid: {"user", "name", "createdAt", "deleted"}
        self.execs = []  # (workspace uid, SHA-256 of the command)
        self.keys = {}  # (user, key): [answer]
        self.runs = {}  # run id: {"user", "seenAt": ns} and what ListRuns tells
        self.versions = {}  # version: PolicyVersion
        self.answers = []  # {"request", "method", "status", "user"}: answered by curl
        self.credentials = {}  # name: tokens that were shown
        self.tokens = []  # everything secret that was shown
        self.errors = {}  # text: count
        self.wrong = []
        self.counts = {}

    def count(self, what, by=1):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + by

    def fail(self, text):
        with self.lock:
            self.wrong.append(text)

    def excuse(self, text):
        with self.lock:
            self.errors[text] = self.errors.get(text, 0) + 1


class Curl:
    """JSON by the real curl, as one user; the request's id is told by the server."""

    def __init__(self, platform, ledger, user, access):
        self.platform, self.ledger, self.user, self.access = platform, ledger, user, access

    def post(self, path, request, seconds=60, kind="--json", auth=True):
        """(HTTP status, text), or None when the connection ended first."""
        body = json.dumps(request) if kind == "--json" else request
        words = ["curl", "-sS", "--cacert", self.platform.ca, "--max-time", str(seconds), kind, body,
                 "-w", "\n%{http_code} %header{x-request-id}"]
        if auth:
            words += ["-H", "x-octelium-auth: " + self.access]
        done = subprocess.run(words + [f"https://localhost:{self.platform.port}{path}"],
                              capture_output=True, text=True, timeout=seconds + 30)
        if done.returncode:
            if done.returncode not in CURL_CODES:
                self.ledger.fail(f"curl of {path} ended with {done.returncode}: {done.stderr}")
            self.ledger.excuse(f"curl {done.returncode}")
            return None
        text, _, tail = done.stdout.rpartition("\n")
        status, _, request_id = tail.partition(" ")
        with self.ledger.lock:
            self.ledger.answers.append({"request": request_id, "method": path.rsplit("/", 1)[1], "user": self.user,
                                        "status": int(status)})
        return int(status), text

    def ok(self, path, request, **options):
        """The answer of a call that succeeded; None when it was told that it could not be done now."""
        answer = self.post(path, request, **options)
        if answer is None:
            return None
        status, text = answer
        if status == 200:
            return json.loads(text)
        if status != 503:
            self.ledger.fail(f"{path}: {status} {text[:300]}")
        self.ledger.excuse(f"HTTP {status} {path.rsplit('/', 1)[1]}")
        return None

    def all(self, path, **request):
        """All pages of a list."""
        items, page = [], 0
        while True:
            answer = self.ok(path, {**request, "common": {"page": page, "itemsPerPage": 1000}})
            assert answer is not None, path
            items += answer.get("items", [])
            if not answer.get("listResponseMeta", {}).get("hasMore"):
                return items
            page += 1


class Client(threading.Thread):
    """One that does its steps again and again until it is told to stop."""

    def __init__(self, load, number):
        super().__init__(name=f"{type(self).__name__}{number}")
        self.load, self.number = load, number
        self.platform, self.ledger = load.platform, load.ledger
        self.random = random.Random(f"{load.seed} {self.name}")
        self.setup()

    def setup(self):
        self.user, _, self.access = self.load.new_member(self.name.lower())
        self.curl = Curl(self.platform, self.ledger, self.user, self.access)

    def run(self):
        while not self.load.is_over.is_set():
            try:
                self.step()
            except Exception as error:
                self.ledger.fail(f"{self.name}: {error!r}")
                return

    def pause(self):
        self.load.is_over.wait(0.1)


class WorkspaceClient(Client):
    """The SDK: create, start, exec, upload, delete; some are left where they are for a while."""

    LEFT_MAX = 20

    def setup(self):
        super().setup()
        self.left = []

    def step(self):
        try:
            with Cordium("localhost", auth=AccessToken(self.access), host=self.platform.host,
                         port=self.platform.port, ssl_context_factory=self.platform.ssl_context) as client:
                while not self.load.is_over.is_set():
                    self.life(client)
        except CordiumError as error:
            if not is_excused(error):
                self.ledger.fail(f"SDK: {error.code}: {error}")
            self.ledger.excuse(f"SDK {error.code}")
            self.pause()
        except (OSError, EOFError, ProtocolError) as error:
            self.ledger.excuse(f"SDK {type(error).__name__}")
            self.pause()

    def life(self, client):
        while len(self.left) > self.LEFT_MAX:
            self.take_away(client, self.left[0])
        box = client.workspaces.create(template=fixture.BOX, ephemeral=self.random.random() < 0.4)
        uid, name = box.uid, box.name
        own = {"user": self.user, "name": name, "createdAt": box.proto.metadata.created_at, "deleted": False}
        with self.ledger.lock:
            self.ledger.workspaces[uid] = own
        self.left.append(own)
        box = box.start()
        box.wait_until_running(timeout=30, poll_interval=0.05)
        self.ledger.count("starts")
        for _ in range(self.random.randrange(1, 4)):
            word = f"{self.random.getrandbits(64):016x}"
            command = f"echo {word}"
            result = box.exec(command, timeout=20)
            if word in result.stdout or result.exit_code == 0:
                if result.stdout != word + "\n":
                    self.ledger.fail(f"{command}: {result}")
                with self.ledger.lock:
                    self.ledger.execs.append((uid, hashlib.sha256(command.encode()).hexdigest()))
            self.ledger.count("execs")
        if self.random.random() < 0.3:
            box.files.write_bytes("/workspace/upload", os.urandom(100_000), timeout=20)
        if self.random.random() < 0.1:
            return  # nobody takes it away
        self.take_away(client, own)
        self.load.is_over.wait(0.05)

    def take_away(self, client, own):
        try:
            client.workspaces.get(own["name"]).delete()
        except CordiumError as error:
            if error.code != "NOT_FOUND":
                raise
        own["deleted"] = True
        self.left.remove(own)
        self.ledger.count("deletes")


def keyed_run(key):
    """A program that prints something else each time, and whose arguments tell the host its key."""
    return {"template": fixture.BOX, "idempotencyKey": key,
            "argv": ["sh", "-c", "read a < /proc/sys/kernel/random/uuid; echo $a; sleep 0.4; :", "key-" + key]}


def note_runs(curl, ledger):
    """A list has the newest thousand."""
    found = curl.ok(RUNS + "ListRuns", {"countMax": 1000})
    with ledger.lock:
        for item in (found or {}).get("items", []):
            ledger.runs[item["runId"]] = {"user": curl.user, "seenAt": time.time_ns(), **item}


class RunClient(Client):
    """curl: a key for each program, and the same request again until its end is known."""

    def step(self):
        if self.random.random() < 0.05:
            note_runs(self.curl, self.ledger)
        if self.random.random() < 0.2:
            self.leave()
            return
        key = f"{self.random.getrandbits(96):024x}"
        for _ in range(200):
            answer = self.ask(key)
            if answer or self.load.is_over.is_set():
                return
            self.pause()
        self.ledger.fail(f"run {key}: no answer for 200 times")

    def ask(self, key):
        answer = self.curl.ok(RUNS + "Run", keyed_run(key))
        if answer:
            with self.ledger.lock:
                self.ledger.keys.setdefault((self.user, key), []).append(answer)
            self.ledger.count("runs")
        return answer

    def leave(self):
        """Goes away in the middle; the program runs on without it."""
        self.curl.post(RUNS + "Run", {"template": fixture.BOX, "command": "sleep 0.5"},
                       seconds=self.random.uniform(0.05, 0.4))


class PolicyClient(Client):
    """curl: applies a policy, again and again with another text, and notes which sets were in force."""

    def setup(self):
        self.curl = Curl(self.platform, self.ledger, "admin", self.load.admin_access)

    def step(self):
        name = f"kill-{self.random.randrange(5)}"
        condition = f"ctx.user.metadata.name == 'nobody-{self.random.getrandbits(32):08x}'"
        document = {"kind": "Policy", "metadata": {"name": name},
                    "spec": {"rules": [{"effect": "DENY", "condition": {"match": condition}}]}}
        if self.curl.ok(POLICY + "Apply", {"documents": json.dumps(document)}):
            self.ledger.count("applies")
        note_versions(self.curl, self.ledger)
        self.load.is_over.wait(0.3)


def note_versions(curl, ledger):
    found = curl.ok(POLICY + "ListVersions", {"count": 50})
    with ledger.lock:
        for item in (found or {}).get("items", []):
            known = ledger.versions.setdefault(int(item["version"]), item)
            if (known["createdAt"], known["reason"]) != (item["createdAt"], item["reason"]):
                ledger.wrong.append(f"version {item['version']} was {known}, and is {item}")


class LoginClient(Client):
    """Users, their credentials, and sessions: by the SDK's method and by OAuth2, both with curl."""

    SESSIONS_PER_USER = 20

    def setup(self):
        self.admin = Curl(self.platform, self.ledger, "admin", self.load.admin_access)
        self.logins = []
        self.made = 0

    def step(self):
        if not self.logins or self.made >= self.SESSIONS_PER_USER:
            self.make_user()
            return
        kind, value = self.random.choice(self.logins)
        self.made += 1
        if kind == "OAUTH2":
            answer = self.admin.ok("/oauth2/token", value, kind="-d", auth=False)
            token = answer and answer["access_token"]
        else:
            answer = self.admin.ok("/octelium.api.main.auth.v1.MainService/AuthenticateWithAuthenticationToken",
                                   {"authenticationToken": value}, auth=False)
            token = answer and answer["accessToken"]
        if token:
            with self.ledger.lock:
                self.ledger.tokens.append(token)
            self.ledger.count("logins")
            who = Curl(self.platform, self.ledger, "?", token)
            answer = who.post(MAIN + "ListSpace", {})
            if answer and answer[0] not in (200, 403, 503):
                self.ledger.fail(f"a token that was just given: {answer}")
        self.load.is_over.wait(0.1)

    def make_user(self):
        name = f"login{self.number}-{self.random.getrandbits(40):010x}"
        if not self.admin.ok(CORE + "CreateUser", {"metadata": {"name": name}, "spec": {"type": "WORKLOAD"}}):
            self.pause()
            return
        logins = []
        for kind in ("AUTH_TOKEN", "OAUTH2"):
            credential = f"{name}-{kind[0].lower()}"
            body = {"metadata": {"name": credential}, "spec": {"type": kind, "user": name}}
            if not self.admin.ok(CORE + "CreateCredential", body):
                continue
            with self.ledger.lock:
                self.ledger.credentials[credential] = 0
            answer = self.admin.ok(CORE + "GenerateCredentialToken", {"credentialRef": {"name": credential}})
            if answer:
                with self.ledger.lock:
                    self.ledger.credentials[credential] += 1
                logins.append(self.login_of(kind, answer))
        self.logins, self.made = logins, 0

    def login_of(self, kind, answer):
        if kind == "AUTH_TOKEN":
            secret = answer["authenticationToken"]["authenticationToken"]
            form = secret
        else:
            own = answer["oauth2Credentials"]
            secret = own["clientSecret"]
            form = f"grant_type=client_credentials&client_id={own['clientID']}&client_secret={secret}"
        with self.ledger.lock:
            self.ledger.tokens.append(secret)
        return kind, form


class Load:
    """All of them; `with` runs them."""

    KINDS = ((WorkspaceClient, 3), (RunClient, 2), (PolicyClient, 1), (LoginClient, 1))

    def __init__(self, platform, seed):
        fixture.ensure(platform)
        # platform.sh writes the other anew at each start.
        platform.ca = shutil.copy(platform.ca, os.path.join(platform.folder, "clients-ca.pem"))
        self.platform, self.seed = platform, seed
        self.ledger = Ledger()
        self.is_over = threading.Event()
        self.admin_access = platform.access_token()
        self.members = {}  # name: access token
        self.clients = [kind(self, i) for kind, count in self.KINDS for i in range(count)]

    def new_member(self, name):
        name, token = fixture.new_user(self.platform, name)
        self.platform.ok("create", "membership", "--space", fixture.SPACE, "--user", name)
        access = self.platform.access_token(token)
        self.members[name] = access
        self.ledger.tokens += [token, access]
        return name, token, access

    def __enter__(self):
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        end = time.monotonic() + 120
        for client in self.clients:
            client.join(max(1, end - time.monotonic()))
            if client.is_alive():
                self.ledger.fail(f"{client.name} hangs")
