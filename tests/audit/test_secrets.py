"""Sentinels go through every door for secrets; then every place where one could have been left is searched."""

import base64
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import audit_files  # noqa: E402
import fixture  # noqa: E402
from cordium import CordiumError  # noqa: E402
from daemons import Daemons, tell  # noqa: E402
from harness import eventually, main, test  # noqa: E402
from receivers import OtlpReceiver, SyslogStream, free_port  # noqa: E402

MAIN = "/octelium.api.main.cordium.v1.MainService/"
CORE = "/octelium.api.main.core.v1.MainService/"
ECHO = ('echo "$API_TOKEN"; printf %s "$API_TOKEN" | base64; printf %s "$API_TOKEN" | od -An -tx1 | tr -d " \\n";'
        ' printf %.6s "$API_TOKEN" >&2; exit 3')


class Sentinels:
    """Secrets with a mark of their own. kept: those that the store has to have, since they are its resources."""

    def __init__(self):
        self.all = {}
        self.kept = set()

    def new(self, name, is_kept=False):
        value = f"sentinel-{name}-{base64.b32encode(os.urandom(10)).decode().lower()}"
        self.all[name] = value
        if is_kept:
            self.kept.add(name)
        return value

    def take(self, name, value, is_kept=False):
        assert value and len(value) >= 16, (name, value)
        self.all[name] = value
        if is_kept:
            self.kept.add(name)
        return value


def forms_of(value):
    raw = value.encode()
    whole = base64.b64encode(raw).rstrip(b"=")
    return {"plain": raw, "base64": whole[:-1], "hex": raw.hex().encode(), "reversed": raw[::-1]}


class Watched:
    """The gateway with all that tells of it: metrics, OTLP and syslog receivers."""

    def __init__(self, platform):
        self.platform, self.daemons = platform, Daemons(platform)
        self.more = os.path.join(platform.folder, "gateway.more.yaml")

    def restart(self):
        self.daemons.stop("gateway")
        self.daemons.up()

    def __enter__(self):
        self.otlp, self.syslog, self.metrics_port = OtlpReceiver(), SyslogStream(), free_port()
        with open(self.more, "w") as file:
            file.write(f"telemetry:\n  metricsListen: 127.0.0.1:{self.metrics_port}\n"
                       f"  otlpEndpoint: http://127.0.0.1:{self.otlp.port}\n  otlpMetricsSeconds: 1\n"
                       f"  syslogTarget: tcp://127.0.0.1:{self.syslog.port}\n")
        self.restart()
        return self

    def __exit__(self, *_):
        self.otlp.stop()
        os.unlink(self.more)
        self.restart()

    def metrics(self):
        import urllib.request

        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            return answer.read()


def use_resources(platform, sentinels, texts):
    """A Secret, a Template with it in the environment, a credential of each kind."""
    admin = platform.access_token()
    sentinels.take("access token", admin)
    platform.ok("create", "secret", "quiet.tests.cordium", "--value", sentinels.new("secret", is_kept=True))
    template = fixture.BOX_YAML.replace("  runtime:\n", "  runtime:\n    envVars:\n      - key: API_TOKEN\n"
                                        "        fromSecret: quiet.tests.cordium\n"
                                        "      - key: OTHER\n        value: "
                                        + sentinels.new("template-env", is_kept=True) + "\n")
    platform.ok("create", "template", "quiet.tests.cordium", "-f", "-", stdin=template)
    platform.ok("build", "quiet.tests.cordium", timeout=300)
    name, token = fixture.new_user(platform, "quiet")
    sentinels.take("credential", token)
    platform.ok("create", "membership", "--space", fixture.SPACE, "--user", name)
    words = platform.ok("create", "credential", name + "-oauth", "--user", name, "--type", "OAUTH2").split()
    sentinels.take("client secret", words[1])
    status, text = platform.curl("/oauth2/token", "", None, "-H", "content-type: application/x-www-form-urlencoded",
                                 "--data", f"grant_type=client_credentials&client_id={words[0]}"
                                           f"&client_secret={words[1]}")
    if status == 200:
        sentinels.take("OAuth2 token", json.loads(text)["access_token"])
    else:
        texts["the answer of /oauth2/token"] = text.encode()
    return name, token


def use_workspace(platform, token, sentinels):
    with platform.sdk(token) as client:
        sentinels.take("session token", client.access_token())
        box = client.workspaces.run(template="quiet.tests.cordium", ephemeral=True, timeout=60)
        # The SDK does not end the input.
        given = sentinels.new("stdin")
        result = box.exec(f"head -c {len(given)}; echo {sentinels.new('command')}; {ECHO}",
                          env={"VALUE": sentinels.new("env")}, stdin=given, timeout=30)
        assert sentinels.all["secret"] in result.stdout and sentinels.all["stdin"] in result.stdout, result
        box.files.write_bytes("/workspace/f", sentinels.new("file").encode(), timeout=20)
        assert box.exec("cat f", timeout=20).stdout == sentinels.all["file"]
        box.delete()


def use_run(platform, access, sentinels):
    """What a Run printed and was given is kept with its result, for its owner."""
    status, text = platform.curl("/v1/run", json.dumps({
        "template": "quiet.tests.cordium", "code": f"cat; cat given; # {sentinels.new('code', is_kept=True)}\n{ECHO}",
        "language": "sh", "stdin": sentinels.new("run-stdin", is_kept=True),
        "env": {"VALUE": sentinels.new("run-env", is_kept=True)},
        "files": [{"path": "given", "text": sentinels.new("run-file", is_kept=True)}]}), access)
    answer = json.loads(text)
    assert status == 200 and answer["exitCode"] == 3, text
    said = answer["stdout"]["text"]
    assert all(sentinels.all[n] in said for n in ("run-stdin", "run-file", "secret")), said
    return answer["runId"]


def fail_in_many_ways(platform, token, run, sentinels):
    """Errors that could quote what came in, or tell one user of another's; gives their texts by name."""
    texts = {}
    name, stranger = fixture.new_user(platform, "stranger")
    other = platform.access_token(stranger)
    sentinels.take("stranger's credential", stranger)
    sentinels.take("stranger's token", other)
    mine = platform.access_token(token)
    sentinels.take("owner's token", mine)
    for what, path, body, access in (
        ("another's Run", "/cordium.ext.v1.RunService/GetRun", {"runId": run}, other),
        ("another's Secret", MAIN + "GetSecret", {"name": "quiet.tests.cordium"}, other),
        ("another's Template", MAIN + "GetTemplate", {"name": "quiet.tests.cordium"}, other),
        ("the Secret itself", MAIN + "GetSecret", {"name": "quiet.tests.cordium"}, mine),
        ("all Secrets", MAIN + "ListSecret", {}, platform.access_token()),
        ("the credentials", CORE + "ListCredential", {"common": {"itemsPerPage": 500}}, platform.access_token()),
        ("a token that is none", MAIN + "ListSpace", {}, sentinels.new("wrong-token")),
        ("a credential that is none", "/octelium.api.main.auth.v1.MainService/AuthenticateWithAuthenticationToken",
         {"authenticationToken": sentinels.new("wrong-credential")}, None),
        ("a field that is none", MAIN + "CreateSecret",
         {"metadata": {"name": "quiet2.tests.cordium"}, "data": {"value": sentinels.new("wrong-data")},
          "nothing": 1}, mine),
        ("a Run over its limits", "/v1/run", {"template": fixture.BOX, "command": "true", "limits": {"pids": 10**6},
                                              "env": {"A": sentinels.new("refused-env")},
                                              "stdin": sentinels.new("refused-stdin")}, mine),
        ("an environment that is none", "/v1/run", {"template": fixture.BOX, "command": "true",
                                                    "env": {"A=B": sentinels.new("bad-env")}}, mine),
    ):
        texts[what] = platform.curl(path, json.dumps(body), access)[1].encode()
    cut = '{"env": {"A": "' + sentinels.new("cut-json")
    texts["JSON that is cut"] = platform.curl("/v1/run", cut, mine)[1].encode()
    with platform.sdk(token) as client:
        try:
            client.workspaces.get("none-" + sentinels.all["secret"][-6:])
        except CordiumError as error:
            texts["a workspace that is none"] = str(error).encode()
    return texts


def all_files(folder):
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                yield os.path.relpath(path, folder), file.read()


def places(platform, watched):
    """{name: bytes} of all that is left when the work is done."""
    daemons = Daemons(platform)
    found = {"the audit log": audit_files.text(platform.audit_folder), "/metrics": watched.metrics()}
    found["OTLP records"] = b"\n".join(r.SerializeToString() for r in watched.otlp.records)
    found["OTLP metrics"] = b"\n".join(m.SerializeToString() for m in watched.otlp.metrics)
    found["syslog"] = "\n".join(map(str, watched.syslog.messages)).encode()
    for name in ("gateway.log", "executor.log"):
        with open(os.path.join(platform.folder, name), "rb") as file:
            found[name] = file.read()
    for name in ("gateway", "executor"):
        for what in ("cmdline", "environ"):
            with open(f"/proc/{daemons.pid(name)}/{what}", "rb") as file:
                found[f"{what} of the {name}"] = file.read()
    for name, data in all_files(os.path.join(platform.folder, "gateway")):
        found["gateway/" + name] = data
    return found


def leaks(sentinels, found):
    """'PLACE holds the SENTINEL' for each; the store may hold what it is for."""
    wrong = []
    for place, data in found.items():
        is_store = place.startswith("gateway/store.db")
        for name, value in sentinels.all.items():
            if is_store and name in sentinels.kept:
                continue
            wrong += [f"{place} holds the {name} ({form})" for form, text in forms_of(value).items() if text in data]
    return wrong


@test
def secrets_are_nowhere_but_where_they_belong(platform):
    fixture.ensure(platform)
    sentinels, texts = Sentinels(), {}
    sentinels.take("administrator's credential", platform.env["OCTELIUM_AUTH_TOKEN"])
    with Watched(platform) as watched:
        name, token = use_resources(platform, sentinels, texts)
        use_workspace(platform, token, sentinels)
        run = use_run(platform, platform.access_token(token), sentinels)
        texts.update(fail_in_many_ways(platform, token, run, sentinels))
        last = platform.audit_lines()[-1]["sequence"]
        assert eventually(lambda: watched.otlp.sequences()[-1:] >= [last], 20), "OTLP is late"
        assert eventually(lambda: len(watched.otlp.metrics) > 1, 20), "no OTLP metrics"
        time.sleep(1)
        found = places(platform, watched)
        # The search finds what is there: the name of the user, and what the store is for.
        assert all(name.encode() in found[p] for p in ("the audit log", "OTLP records", "syslog")), list(found)
        stored = b"".join(v for k, v in found.items() if k.startswith("gateway/store.db"))
        assert sentinels.all["secret"].encode() in stored and b"index.db" in b" ".join(k.encode() for k in found)
        wrong = leaks(sentinels, found)
        wrong += [f"the answer about {what} holds the {n}" for what, text in texts.items()
                  for n, value in sentinels.all.items() if value.encode() in text]
        tell(f"{len(sentinels.all)} sentinels, {len(found)} places of {sum(map(len, found.values())) / 1e6:.1f} MB,",
             f"{len(texts)} answers")
        assert not wrong, wrong[:20]
    platform.ok("delete", "template", "quiet.tests.cordium")
    platform.ok("delete", "secret", "quiet.tests.cordium")


if __name__ == "__main__":
    main()
