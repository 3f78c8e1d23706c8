"""What leaves the gateway: metrics for Prometheus, audit lines and metrics by OTLP, audit lines by syslog; and
that a receiver that is away, slow or hostile costs no request anything.

The receivers are real programs where the machine has them (OpenTelemetry Collector, Prometheus, promtool,
rsyslog), and else strict readers of the protocols."""

import hashlib
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import audit_files
import fixture
import receivers
from daemons import Daemons, processes
from harness import eventually, main, test
from receivers import OtlpReceiver, Program, SyslogDatagrams, SyslogStream, attributes, free_port, plain, points

LIST_SPACE = "/octelium.api.main.cordium.v1.MainService/ListSpace"
METRICS_TOKEN = "telemetry-test-token-0123456789abcdef0123456789"
API_KEY = "telemetry-test-api-key-5f1c"
skipped = []


def needs(program):
    """The decorated test is skipped, and says so, where a program is not installed."""

    def decorate(function):
        path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
        if path:
            return test(function)
        skipped.append(f"{function.__name__}: no {program}")
        return function

    return decorate


def configure(platform, text):
    """Starts the gateway anew with these telemetry settings."""
    daemons = Daemons(platform)
    if daemons.alive("gateway"):
        daemons.stop("gateway")
    with open(os.path.join(platform.folder, "gateway.more.yaml"), "w") as file:
        file.write("telemetry:\n" + "".join(f"  {line}\n" for line in text) if text else "")
    daemons.up()
    return daemons


def secret_file(platform, name, text, mode=0o600):
    """A file that only the gateway's user can read."""
    path = os.path.join(platform.folder, "gateway", name)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)
    os.chown(path, Daemons(platform).uid, Daemons(platform).uid)
    return path


def scrape(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return answer.read().decode()


def samples(text):
    """{series: value}"""
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line and not line.startswith("#")
    }


class Caller:
    """Many calls on one connection."""

    def __init__(self, platform, token=None):
        self.connection = http.client.HTTPSConnection(
            "localhost", platform.port, context=platform.ssl_context(), timeout=20
        )
        self.headers = {"content-type": "application/json"}
        if token:
            self.headers["x-octelium-auth"] = token

    def call(self, path=LIST_SPACE, body="{}"):
        """Gives (HTTP status, seconds)."""
        began = time.monotonic()
        self.connection.request("POST", path, body, self.headers)
        answer = self.connection.getresponse()
        answer.read()
        return answer.status, time.monotonic() - began

    def times(self, count):
        return sorted(self.call()[1] for _ in range(count))


_access = {}


def admin(platform):
    """An access token that all share: a User may have 16 sessions."""
    if not _access:
        _access["token"] = platform.access_token()
    return _access["token"]


def lines_of(platform):
    """{sequence: line} of all that the audit log holds, checkpoints too."""
    lines = audit_files.text(platform.audit_folder).splitlines()
    return {json.loads(line)["sequence"]: line.decode() for line in lines if line.startswith(b'{"sequence"')}


def last_sequence(platform):
    return max(lines_of(platform))


def has_come(messages, sequence):
    """The line is among the newest messages; a checkpoint may follow any line."""
    return any(f'sequence="{sequence}"' in text for text in messages[-8:])


# ---- metrics ----


@needs("promtool")
def promtool_finds_nothing_wrong_with_the_metrics(platform):
    port = free_port()
    configure(platform, [f"metricsListen: 127.0.0.1:{port}"])
    Caller(platform, admin(platform)).call()
    Caller(platform).call()
    done = subprocess.run(["promtool", "check", "metrics"], input=scrape(port), capture_output=True, text=True)
    assert done.returncode == 0 and not done.stdout and not done.stderr, done
    assert "cordium_requests_total{" in scrape(port)


@test
def requests_programs_and_starts_are_counted(platform):
    port = free_port()
    configure(platform, [f"metricsListen: 127.0.0.1:{port}"])
    token = fixture.ensure(platform)["worker"]
    access = admin(platform)
    before = samples(scrape(port))
    allowed = Caller(platform, access)
    assert [allowed.call()[0] for _ in range(5)] == [200] * 5
    assert [Caller(platform).call()[0] for _ in range(3)] == [401] * 3
    assert allowed.call("/octelium.api.main.cordium.v1.MainService/Nothing")[0] in (404, 501)
    assert allowed.call(body="{")[0] == 400
    with platform.sdk(token) as client:
        workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        assert samples(scrape(port))['cordium_workspaces_active{phase="running"}'] == 1
        workspace.exec("exit 3")
        workspace.exec("kill -9 $$")
        workspace.delete()
        code, text = platform.curl("/v1/run", json.dumps({"template": fixture.BOX, "argv": ["false"]}), client.access_token())
    assert code == 200 and json.loads(text)["exitCode"] == 1, text
    after = samples(scrape(port))

    def grown(series):
        return after.get(series, 0) - before.get(series, 0)

    method = LIST_SPACE[1:]
    assert grown(f'cordium_requests_total{{method="{method}",decision="ALLOWED",code="OK"}}') == 5, after
    assert grown(f'cordium_requests_total{{method="{method}",decision="DENIED",code="UNAUTHENTICATED"}}') == 3
    assert grown('cordium_requests_total{method="unknown",decision="DENIED",code="UNIMPLEMENTED"}') == 1
    assert grown('cordium_denials_total{reason="UNAUTHENTICATED"}') == 3
    assert grown('cordium_denials_total{reason="MALFORMED"}') == 1
    assert grown('cordium_outcomes_total{operation="exec",outcome="exited"}') >= 1
    assert grown('cordium_outcomes_total{operation="exec",outcome="signaled"}') >= 1
    assert grown('cordium_workspace_start_duration_seconds_count{result="running"}') == 1
    assert 0 < grown('cordium_workspace_start_duration_seconds_sum{result="running"}') < 30
    assert grown('cordium_decision_duration_seconds_count{decision="ALLOWED"}') >= 6
    assert grown('cordium_outcomes_total{operation="run",outcome="exited"}') == 1
    assert grown("cordium_run_start_duration_seconds_count") == 1
    assert 0 < grown("cordium_run_start_duration_seconds_sum") < 30
    assert grown("cordium_audit_lines_total") >= 10
    assert after["cordium_executor_connected"] == 1
    assert eventually(lambda: samples(scrape(port))['cordium_queue_depth{queue="audit"}'] == 0)
    assert eventually(lambda: samples(scrape(port))["cordium_requests_active"] == 0)


@test
def buckets_are_cumulative_and_agree_with_the_count(platform):
    port = free_port()
    configure(platform, [f"metricsListen: 127.0.0.1:{port}"])
    caller = Caller(platform, admin(platform))
    caller.times(200)
    text = scrape(port)
    found = samples(text)
    buckets = [
        (float(name.split('le="')[1].split('"')[0]), value)
        for name, value in found.items()
        if name.startswith('cordium_request_duration_seconds_bucket{access="read"')
    ]
    assert len(buckets) == 16 and buckets == sorted(buckets), buckets
    assert [v for _, v in buckets] == sorted(v for _, v in buckets)
    assert buckets[-1][1] == found['cordium_request_duration_seconds_count{access="read"}'] >= 200


@test
def no_label_names_a_user_or_an_object(platform):
    port = free_port()
    configure(platform, [f"metricsListen: 127.0.0.1:{port}"])
    name, token = fixture.new_user(platform, "labelled")
    platform.cli("get", "space", token=token)
    platform.cli("get", "template", fixture.BOX, token=token)
    access = platform.access_token(token)
    Caller(platform, access).call("/no.such.Service/" + name)
    text = scrape(port)
    for word in (name, "worker", "admin", fixture.BOX, fixture.SPACE, access):
        assert word not in text, word
    labels = {part.split("=")[0] for line in samples(text) if "{" in line for part in
              line.split("{")[1].rstrip("}").replace('",', '"\n').split("\n")}
    assert labels == {"method", "decision", "code", "access", "reason", "phase", "result", "operation", "outcome",
                      "queue", "sink", "signal", "version", "le"}, labels
    assert len(samples(text)) < 600, len(samples(text))


@test
def the_metrics_listener_serves_nothing_else(platform):
    port = free_port()
    configure(platform, [f"metricsListen: 127.0.0.1:{port}"])
    access = admin(platform)

    def ask(method, path, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request(method, path, "{}" if method == "POST" else None, headers or {})
        return connection.getresponse().status

    assert ask("GET", "/metrics") == 200 and ask("GET", "/healthz") == 200
    assert ask("POST", "/metrics") == 405
    assert ask("GET", "/") == 404 and ask("POST", "/oauth2/token") == 404
    headers = {"content-type": "application/json", "x-octelium-auth": access}
    assert ask("POST", LIST_SPACE, headers) in (404, 501), ask("POST", LIST_SPACE, headers)
    listening = subprocess.run(["ss", "-ltnH", f"sport = :{port}"], capture_output=True, text=True).stdout
    assert f"127.0.0.1:{port}" in listening and "0.0.0.0" not in listening.split()[3], listening


def ask_inside(pid, path, token):
    """What the workspace's own socket to the gateway answers; the socket is found through one of its programs."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(f"/proc/{pid}/root/run/octelium-proxy.sock")
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        answer = b""
        while more := s.recv(65536):
            answer += more
        return answer.decode()


@test
def the_apis_port_gives_metrics_for_the_token_only(platform):
    path = secret_file(platform, "metrics.token", METRICS_TOKEN + "\n")

    def ask(*options, method="GET"):
        done = subprocess.run(
            ["curl", "-sS", "--http1.1", "-X", method, "--cacert", platform.ca, "-w", "\n%{http_code}", *options,
             f"https://localhost:{platform.port}/metrics"], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        text, _, code = done.stdout.rpartition("\n")
        return int(code), text

    configure(platform, [])
    bearer = ["-H", "Authorization: Bearer " + METRICS_TOKEN]
    assert ask(*bearer)[0] == 404, "there is no such path unless it is configured"
    configure(platform, [f"metricsTokenFile: {path}"])
    before = last_sequence(platform)
    code, text = ask(*bearer)
    assert code == 200 and "cordium_requests_total" in text or "cordium_build_info" in text
    access = admin(platform)
    for options in ([], ["-H", "Authorization: Bearer " + METRICS_TOKEN[:-1]], ["-H", "Authorization: Bearer "],
                    ["-H", "Authorization: " + METRICS_TOKEN], ["-H", "Authorization: Bearer " + access],
                    ["-H", "x-octelium-auth: " + access]):
        code, text = ask(*options)
        assert code == 401 and "cordium_" not in text, (options, code)
    assert ask(*bearer, method="POST")[0] == 405

    def lines():
        found = [line for line in platform.audit_lines() if line["sequence"] > before and
                 line.get("entry", {}).get("info", {}).get("http", {}).get("request", {}).get("path") == "/metrics"]
        ids = {line["cordium"].get("requestID") for line in found}
        assert None not in ids and len(ids) == len(found), found
        commons = [line["entry"]["common"] for line in found]
        return [(common["status"], common["reason"]["type"]) for common in commons]

    assert eventually(lambda: lines().count(("ALLOWED", "METRICS_TOKEN")) == 1
                      and lines().count(("DENIED", "UNAUTHENTICATED")) == 6), lines()
    with platform.sdk(fixture.ensure(platform)["worker"]) as client:
        workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
        workspace.exec("sleep 86371 >/dev/null 2>&1 &")
        answers = [ask_inside(processes("86371")[0], path, METRICS_TOKEN) for path in ("/metrics", "/healthz")]
        workspace.delete()
    assert answers[0].startswith("HTTP/1.1 404") and "cordium_" not in answers[0], answers
    assert answers[1].startswith("HTTP/1.1 200"), "the socket itself works"


@needs("prometheus")
def prometheus_scrapes_both_doors(platform):
    port, own = free_port(), free_port()
    path = secret_file(platform, "metrics.token", METRICS_TOKEN + "\n")
    configure(platform, [f"metricsListen: 127.0.0.1:{port}", f"metricsTokenFile: {path}"])
    Caller(platform, admin(platform)).call()
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "p.yaml"), "w") as file:
            file.write(f"""
global: {{scrape_interval: 1s}}
scrape_configs:
- job_name: loopback
  static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
- job_name: api
  scheme: https
  authorization: {{credentials_file: {path}}}
  tls_config: {{ca_file: {platform.ca}, server_name: localhost}}
  static_configs: [{{targets: ["127.0.0.1:{platform.port}"]}}]
""")
        checked = subprocess.run(["promtool", "check", "config", os.path.join(folder, "p.yaml")],
                                 capture_output=True, text=True)
        assert checked.returncode == 0, checked

        def query(text):
            url = f"http://127.0.0.1:{own}/api/v1/query?" + urllib.parse.urlencode({"query": text})
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    return {r["metric"].get("job"): float(r["value"][1]) for r in json.load(answer)["data"]["result"]}
            except OSError:
                return {}

        words = ["prometheus", f"--config.file={folder}/p.yaml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{own}"]
        with Program(words, os.path.join(folder, "log")):
            assert eventually(lambda: query("up") == {"loopback": 1, "api": 1}, 30), query("up")
            assert query("cordium_executor_connected") == {"loopback": 1, "api": 1}
            quantile = "histogram_quantile(0.5, sum by (le, job) (cordium_decision_duration_seconds_bucket))"
            assert 0 < query(quantile)["loopback"] < 0.1, query(quantile)
            assert eventually(lambda: query('sum by (job) (cordium_requests_total{code="OK"})').get("loopback", 0) >= 1)


# ---- OTLP ----


@test
def each_audit_line_becomes_a_log_record(platform):
    with OtlpReceiver() as receiver:
        configure(platform, [f"otlpEndpoint: http://127.0.0.1:{receiver.port}", "otlpMetricsSeconds: 1"])
        first = last_sequence(platform)
        Caller(platform, admin(platform)).call()
        Caller(platform).call()
        last = last_sequence(platform)
        assert eventually(lambda: last in receiver.sequences(), 15)
        sequences = receiver.sequences()
        assert sequences == list(range(sequences[0], sequences[-1] + 1)) and sequences[0] <= first
        texts = lines_of(platform)
        lines = {sequence: json.loads(text) for sequence, text in texts.items()}
        hashes = {sequence: hashlib.sha256(text.encode()).hexdigest() for sequence, text in texts.items()}
        previous = None
        for record in receiver.records:
            given = attributes(record)
            body = plain(record.body)
            sequence = given["cordium.audit.sequence"]
            assert body == lines[sequence], "the body is the line's object"
            assert given["cordium.audit.sha256"] == hashes[sequence]
            assert previous in (None, body["prev"]), "the chain can be checked at the receiver"
            previous = given["cordium.audit.sha256"]
            status = body.get("entry", {}).get("common", {}).get("status")
            assert (record.severity_number, record.severity_text) == ((13, "WARN") if status == "DENIED" else (9, "INFO"))
            assert record.event_name == "cordium.audit"
            assert abs(record.time_unix_nano - time.time_ns()) < 600e9 and record.observed_time_unix_nano
        rpcs = [attributes(r) for r in receiver.records if "rpc.method" in attributes(r)]
        asked = [a for a in rpcs if a["rpc.method"] == "ListSpace"]
        assert {a["cordium.decision"] for a in asked} == {"ALLOWED", "DENIED"}
        allowed = next(a for a in asked if a["cordium.decision"] == "ALLOWED")
        assert allowed["rpc.system"] == "grpc" and allowed["user.name"] == "admin", allowed
        assert allowed["rpc.service"] == "octelium.api.main.cordium.v1.MainService"
        assert allowed["client.address"] == "127.0.0.1" and allowed["client.port"] > 0
        denied = next(a for a in asked if a["cordium.decision"] == "DENIED")
        assert denied["rpc.grpc.status_code"] == 16 and denied["cordium.decision.reason"] == "UNAUTHENTICATED"

        assert eventually(lambda: len(receiver.metrics) >= 2)
        found = points(receiver.metrics[-1])
        key = ("cordium.requests", (("code", "OK"), ("decision", "ALLOWED"), ("method", LIST_SPACE[1:])))
        assert found[key].as_int == 1
        assert found["cordium.executor.connected", ()].as_int == 1
        histogram = found["cordium.decision.duration", (("decision", "ALLOWED"),)]
        assert len(histogram.bucket_counts) == len(histogram.explicit_bounds) + 1
        assert sum(histogram.bucket_counts) == histogram.count >= 1 and histogram.sum > 0
        assert histogram.start_time_unix_nano < histogram.time_unix_nano


@test
def the_opentelemetry_collector_takes_logs_and_metrics(platform):
    program = receivers.collector_program()
    if not program:
        assert os.environ.get("MUST_WORK") != "1", "there is no Go to build the Collector with"
        print("      skipped: there is no Go, or an old one, to build the Collector with")
        return
    port = free_port()
    folder = os.path.join(platform.folder, "collector")
    shutil.rmtree(folder, ignore_errors=True)
    with receivers.start_collector(program, folder, port):
        configure(platform, [f"otlpEndpoint: http://127.0.0.1:{port}", "otlpMetricsSeconds: 1"])
        Caller(platform, admin(platform)).times(100)
        last = last_sequence(platform)

        def records():
            return [record for line in receivers.json_lines(os.path.join(folder, "logs.json"))
                    for resource in line["resourceLogs"] for scope in resource["scopeLogs"]
                    for record in scope["logRecords"]]

        assert eventually(lambda: any(receivers.json_value(r["body"])["sequence"] == last for r in records()), 15)
        lines = {sequence: json.loads(text) for sequence, text in lines_of(platform).items()}
        bodies = [receivers.json_value(r["body"]) for r in records()]
        assert len(bodies) > 100 and all(body == lines[body["sequence"]] for body in bodies)
        assert eventually(lambda: receivers.json_lines(os.path.join(folder, "metrics.json")))
        resource = receivers.json_lines(os.path.join(folder, "metrics.json"))[-1]["resourceMetrics"][0]
        names = {m["name"] for m in resource["scopeMetrics"][0]["metrics"]}
        assert {"cordium.requests", "cordium.decision.duration", "process.cpu"} <= names, names
    with open(os.path.join(folder, "log")) as log:
        assert "error" not in log.read().lower().replace("errorcount", "")


@test
def a_busy_receiver_gets_the_same_batch_again_when_it_says(platform):
    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as service

    with OtlpReceiver() as receiver:
        metrics = free_port()
        partial = service.ExportLogsServiceResponse()
        partial.partial_success.rejected_log_records = 1
        partial.partial_success.error_message = "one too many"
        receiver.answers = [(503, {"Retry-After": "3"}, b"")]
        configure(platform, [f"otlpEndpoint: http://127.0.0.1:{receiver.port}", "otlpMetricsSeconds: 0",
                             f"metricsListen: 127.0.0.1:{metrics}"])
        assert eventually(lambda: len(receiver.requests) == 1)
        began = time.monotonic()
        assert eventually(lambda: receiver.records, 15)
        assert 2.5 < time.monotonic() - began < 8, time.monotonic() - began
        for status in (429, 502, 504):
            receiver.answers = [(status, {}, b"")]
            Caller(platform).call()
            last = last_sequence(platform)
            assert eventually(lambda: last in receiver.sequences(), 10), status
        assert receiver.sequences() == sorted(set(receiver.sequences())), "nothing twice, nothing left out"
        before = samples(scrape(metrics))
        # For good: the batch is counted and gone, and the next one goes.
        receiver.answers = [(400, {}, b"")]
        Caller(platform).call()
        refused = last_sequence(platform)
        name = 'cordium_telemetry_lines_total{sink="otlp",result="rejected"}'
        assert eventually(lambda: samples(scrape(metrics))[name] >= before[name] + 1, 10)
        before = samples(scrape(metrics))
        receiver.answers = [(200, {}, partial.SerializeToString())]
        Caller(platform).call()
        assert eventually(lambda: samples(scrape(metrics))[name] == before[name] + 1, 10)
        Caller(platform).call()
        last = last_sequence(platform)
        assert eventually(lambda: last in receiver.sequences(), 10)
        assert refused not in receiver.sequences()


@test
def a_receiver_that_is_away_costs_nothing_and_drops_are_counted(platform):
    port, metrics = free_port(), free_port()
    configure(platform, [f"metricsListen: 127.0.0.1:{metrics}"])
    caller = Caller(platform, admin(platform))
    caller.times(100)
    base = caller.times(400)
    daemons = configure(platform, [f"otlpEndpoint: http://127.0.0.1:{port}", f"syslogTarget: tcp://127.0.0.1:{port}",
                                   "queueMebibytes: 1", f"metricsListen: 127.0.0.1:{metrics}"])
    first = next(line["sequence"] for line in reversed(platform.audit_lines())
                 if line.get("cordium", {}).get("event") == "START")
    caller = Caller(platform, admin(platform))
    caller.times(100)
    away = caller.times(400)
    print(f"      median {statistics.median(base) * 1e6:.0f} us without, {statistics.median(away) * 1e6:.0f} us with "
          f"receivers that are away; the 95th {base[379] * 1e6:.0f} and {away[379] * 1e6:.0f} us")
    assert statistics.median(away) < 3 * statistics.median(base) + 0.02
    caller.times(2500)
    memory = daemons.resident_kilobytes("gateway")
    caller.times(500)
    if not daemons.keeps_freed:
        assert daemons.resident_kilobytes("gateway") < memory + 4096, "the queues have a bound"
    found = samples(scrape(metrics))
    last = last_sequence(platform)
    total = last - first + 1
    depth = found['cordium_queue_depth{queue="otlp"}']
    dropped = found['cordium_telemetry_lines_total{sink="otlp",result="dropped"}']
    assert dropped > 500 and depth + dropped == total, (depth, dropped, total)
    assert found['cordium_telemetry_lines_total{sink="syslog",result="dropped"}'] > 500
    with open(os.path.join(platform.folder, "gateway.log")) as log:
        said = [line for line in log if "telemetry: otlp:" in line and "dropped" in line]
    assert 1 <= len(said) and "telemetry: otlp" in said[-1], said
    with OtlpReceiver(port) as receiver:
        assert eventually(lambda: samples(scrape(metrics))['cordium_queue_depth{queue="otlp"}'] == 0, 45)
        sequences = receiver.sequences()
        gaps = [a for a, b in zip(sequences, sequences[1:]) if b != a + 1]
        assert sequences[0] == first and not gaps, ("the oldest stay, without a gap", first, sequences[0], gaps)
        assert len(sequences) == depth and max(receiver.batches) <= 512
        caller.call()
        newest = last_sequence(platform)
        assert eventually(lambda: newest in receiver.sequences(), 10)


@test
def the_daemons_log_says_it_once_a_minute(platform):
    port = free_port()
    configure(platform, [f"otlpEndpoint: http://127.0.0.1:{port}", "queueMebibytes: 1"])
    with open(os.path.join(platform.folder, "gateway.log")) as log:
        log.seek(0, 2)
        Caller(platform, admin(platform)).times(3000)
        time.sleep(2)
        said = [line for line in log if "telemetry" in line]
    assert len(said) <= 1, said


@test
def a_receiver_that_hangs_costs_nothing(platform):
    with OtlpReceiver() as receiver:
        configure(platform, [f"otlpEndpoint: http://127.0.0.1:{receiver.port}"])
        caller = Caller(platform, admin(platform))
        caller.times(100)
        base, slow = [], []
        for _ in range(6):  # by turns, since others use this machine, too
            receiver.delay = 0
            base += caller.times(50)
            receiver.delay = 3
            slow += caller.times(50)
            time.sleep(1.1)  # a batch is due, and hangs
        print(f"      median {statistics.median(base) * 1e6:.0f} us, {statistics.median(slow) * 1e6:.0f} us while it hangs")
        assert statistics.median(slow) < 3 * statistics.median(base) + 0.02
        last = last_sequence(platform)
        assert eventually(lambda: last in receiver.sequences(), 30), "a slow receiver gets all of it"
        assert receiver.sequences() == sorted(set(receiver.sequences()))
        receiver.delay = 0


@test
def a_backlog_leaves_in_full_batches(platform):
    port, metrics = free_port(), free_port()
    configure(platform, [f"otlpEndpoint: http://127.0.0.1:{port}", "otlpMetricsSeconds: 0", "queueMebibytes: 64",
                         f"metricsListen: 127.0.0.1:{metrics}"])
    callers = Caller(platform, admin(platform))
    callers.times(8000)
    depth = samples(scrape(metrics))['cordium_queue_depth{queue="otlp"}']
    assert depth >= 8000
    with OtlpReceiver(port) as receiver:
        began = None
        assert eventually(lambda: receiver.records, 45)
        began = time.monotonic()
        slowest = max(callers.times(100))
        assert eventually(lambda: len(receiver.records) >= depth, 60)
        print(f"      {len(receiver.records)} lines in {len(receiver.batches)} batches, "
              f"{time.monotonic() - began:.1f} s; the slowest request meanwhile {slowest * 1000:.1f} ms")
        assert receiver.sequences() == sorted(set(receiver.sequences()))
        assert sum(receiver.batches) / len(receiver.batches) > 256, receiver.batches


@test
def https_needs_the_right_certificate_and_headers_come_from_a_file(platform):
    folder = tempfile.mkdtemp(dir="/tmp")
    try:
        os.chmod(folder, 0o755)
        for name in ("right", "wrong"):
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout",
                 f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem"], check=True, capture_output=True)
            os.chmod(f"{folder}/{name}.pem", 0o644)
        headers = secret_file(platform, "otlp.headers", f"Authorization: Bearer {API_KEY}\n# a comment\nX-Scope: a\n")
        with OtlpReceiver(certificate=(f"{folder}/right.pem", f"{folder}/right.key")) as receiver:
            settings = [f"otlpEndpoint: https://localhost:{receiver.port}/in", f"otlpHeadersFile: {headers}",
                        "otlpMetricsSeconds: 1"]
            configure(platform, [*settings, f"otlpCABundle: {folder}/wrong.pem"])
            Caller(platform).call()
            time.sleep(3)
            assert not receiver.requests, "nothing is said to a receiver that cannot prove who it is"
            configure(platform, [*settings, f"otlpCABundle: {folder}/right.pem"])
            assert eventually(lambda: receiver.records and receiver.metrics, 15)
            assert {path for path, _ in receiver.requests} == {"/in/v1/logs", "/in/v1/metrics"}
            for _, given in receiver.requests:
                assert given["Authorization"] == "Bearer " + API_KEY and given["X-Scope"] == "a", given
        with open(os.path.join(platform.folder, "gateway.log")) as log:
            text = log.read()
        assert API_KEY not in text and "certificate" in text
    finally:
        shutil.rmtree(folder)


@test
def what_is_queued_leaves_at_the_end_and_lines_go_on_after_a_kill(platform):
    with OtlpReceiver() as receiver:
        stream = SyslogStream()
        settings = [f"otlpEndpoint: http://127.0.0.1:{receiver.port}", f"syslogTarget: tcp://127.0.0.1:{stream.port}"]
        daemons = configure(platform, settings)
        Caller(platform).call()
        daemons.stop("gateway")
        last = last_sequence(platform)
        assert platform.audit_lines()[-1]["cordium"]["event"] == "STOP"
        assert last == receiver.sequences()[-1], "also the last lines: STOP and the checkpoint behind it"
        assert plain(receiver.records[-1].body)["checkpoint"]["signature"]
        assert eventually(lambda: has_come(stream.messages, last)), stream.messages[-1:]
        daemons.up()
        Caller(platform).call()
        daemons.kill("gateway")
        daemons.up()
        Caller(platform).call()
        newest = last_sequence(platform)
        assert eventually(lambda: newest in receiver.sequences(), 15)
        assert receiver.sequences() == sorted(set(receiver.sequences()))
        assert eventually(lambda: has_come(stream.messages, newest), 15)
        stream.stop()
        # A receiver that is away does not hold the end up for long.
        receiver.stop()
        Caller(platform).call()
        time.sleep(2)
        began = time.monotonic()
        daemons.stop("gateway")
        assert time.monotonic() - began < 6
        with open(os.path.join(platform.folder, "gateway.log")) as log:
            assert "were not sent" in log.read()
        daemons.up()
        receiver.__init__()


# ---- syslog ----


def check_syslog(platform, messages, first):
    lines = lines_of(platform)
    sequences = []
    for text in messages:
        header, parameters, message = receivers.read_syslog(text)
        line = json.loads(message)
        assert message == lines[line["sequence"]], "the line, byte for byte"
        common = line.get("entry", {}).get("common", {})
        severity = 4 if common.get("status") == "DENIED" else 6
        assert int(header["pri"]) == 13 * 8 + severity and header["app"] == "cordium-gateway"
        assert header["sd"] == "cordium@32473" and parameters["sequence"] == str(line["sequence"])
        assert parameters.get("decision") == common.get("status")
        assert parameters.get("user") == common.get("userRef", {}).get("name")
        sequences.append(line["sequence"])
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences))) and sequences[0] <= first, sequences
    return sequences


def use_syslog(platform, messages):
    first = last_sequence(platform)
    Caller(platform, admin(platform)).times(50)
    Caller(platform).times(50)
    last = last_sequence(platform)
    assert eventually(lambda: messages and json.loads(receivers.read_syslog(messages[-1])[2])["sequence"] >= last, 10)
    check_syslog(platform, list(messages), first)


@test
def syslog_on_a_stream_counts_octets_and_survives_its_receiver(platform):
    stream = SyslogStream()
    configure(platform, [f"syslogTarget: tcp://127.0.0.1:{stream.port}"])
    use_syslog(platform, stream.messages)
    # Dropped by the receiver: the lines go on, on a new connection.
    stream.drop()
    time.sleep(0.3)
    Caller(platform).times(20)
    last = last_sequence(platform)
    assert eventually(lambda: has_come(stream.messages, last), 15)
    check_syslog(platform, stream.messages, 10**9)
    # Gone for a while.
    port = stream.port
    stream.stop()
    time.sleep(0.3)
    Caller(platform).times(20)
    again = SyslogStream(port)
    last = last_sequence(platform)
    assert eventually(lambda: has_come(again.messages, last), 30)
    check_syslog(platform, again.messages, 10**9)
    # It reads nothing: the socket fills, then the queue, and no request waits.
    again.is_reading.clear()
    caller = Caller(platform)
    times = caller.times(3000)
    assert statistics.median(times) < 0.01, statistics.median(times)
    again.is_reading.set()
    last = last_sequence(platform)
    assert eventually(lambda: has_come(again.messages, last), 30)
    check_syslog(platform, again.messages, 10**9)
    again.stop()


@test
def syslog_by_udp_is_a_message_a_datagram(platform):
    receiver = SyslogDatagrams()
    configure(platform, [f"syslogTarget: udp://127.0.0.1:{receiver.port}", "syslogFacility: 13"])
    use_syslog(platform, receiver.messages)
    receiver.stop()


@test
def syslog_on_the_machines_own_socket(platform):
    path = f"/tmp/cordium-test-log-{os.getpid()}"
    receiver = SyslogDatagrams(path)
    try:
        metrics = free_port()
        configure(platform, [f"syslogTarget: unix://{path}", f"metricsListen: 127.0.0.1:{metrics}"])
        use_syslog(platform, receiver.messages)
        # It is started anew: a new socket at the same path.
        receiver.stop()
        os.unlink(path)
        Caller(platform).times(5)
        receiver = SyslogDatagrams(path)
        last = last_sequence(platform)
        assert eventually(lambda: has_come(receiver.messages, last), 15)
        assert samples(scrape(metrics))['cordium_telemetry_lines_total{sink="syslog",result="dropped"}'] == 0
    finally:
        receiver.stop()
        os.unlink(path)


RSYSLOG_CONFIG = """
global(workDirectory="{folder}" maxMessageSize="1m")
module(load="imtcp") module(load="imudp")
module(load="imuxsock" SysSock.Use="off")
input(type="imtcp" address="127.0.0.1" port="{tcp}")
input(type="imudp" address="127.0.0.1" port="{udp}")
input(type="imuxsock" Socket="{folder}/log" UseSpecialParser="off" ParseHostname="on")
template(name="all" type="string" string="%syslogfacility%|%syslogseverity-text%|%app-name%|%structured-data%|%msg%\\n")
action(type="omfile" file="{folder}/out" template="all")
"""


@needs("rsyslogd")
def rsyslog_takes_what_is_sent_in_each_way(platform):
    folder = tempfile.mkdtemp(dir="/tmp")
    os.chmod(folder, 0o755)
    tcp, udp = free_port(), free_port()
    with open(f"{folder}/conf", "w") as file:
        file.write(RSYSLOG_CONFIG.format(folder=folder, tcp=tcp, udp=udp))
    out = os.path.join(folder, "out")

    def messages():
        if not os.path.exists(out):
            return []
        with open(out) as lines:
            return [line.rstrip("\n").split("|", 4) for line in lines]

    with Program(["/usr/sbin/rsyslogd", "-n", "-f", f"{folder}/conf", "-i", f"{folder}/pid"], f"{folder}/errors"):
        assert eventually(lambda: receivers.is_listening(tcp), 10), open(f"{folder}/errors").read()
        os.chmod(f"{folder}/log", 0o666)
        for target in (f"tcp://127.0.0.1:{tcp}", f"udp://127.0.0.1:{udp}", f"unix://{folder}/log"):
            configure(platform, [f"syslogTarget: {target}"])
            Caller(platform).call()
            line = platform.audit_lines()[-1]
            text = lines_of(platform)[line["sequence"]]
            assert eventually(lambda: any(m[4] == text for m in messages()), 10), (target, messages()[-1:])
            facility, severity, app, data, _ = next(m for m in messages() if m[4] == text)
            assert (facility, severity, app) == ("13", "warning", "cordium-gateway"), messages()[-1]
            assert data.startswith(f'[cordium@32473 sequence="{line["sequence"]}"') and 'reason="UNAUTHENTICATED"' in data
    shutil.rmtree(folder)


# ---- secrets and settings ----


@test
def no_secret_leaves(platform):
    token = fixture.ensure(platform)["worker"]
    sentinels = ["sentinel-env-value-9c1", "sentinel-stdin-9c1", "sentinel-command-9c1", "sentinel-secret-9c1"]
    headers = secret_file(platform, "otlp.headers", f"X-Api-Key: {API_KEY}\n")
    metrics_token = secret_file(platform, "metrics.token", METRICS_TOKEN + "\n")
    stream, metrics = SyslogStream(), free_port()
    with OtlpReceiver() as receiver:
        configure(platform, [f"otlpEndpoint: http://127.0.0.1:{receiver.port}", f"otlpHeadersFile: {headers}",
                             "otlpMetricsSeconds: 1", f"syslogTarget: tcp://127.0.0.1:{stream.port}",
                             f"metricsListen: 127.0.0.1:{metrics}", f"metricsTokenFile: {metrics_token}"])
        platform.ok("create", "secret", "hushed.tests.cordium", "--value", sentinels[3])
        with platform.sdk(token) as client:
            workspace = client.workspaces.run(template=fixture.BOX, ephemeral=True, timeout=60)
            workspace.exec(f"head -c 5; echo {sentinels[2]}", env={"SECRET": sentinels[0]}, stdin=sentinels[1])
            access = client.access_token()
            workspace.delete()
        platform.ok("delete", "secret", "hushed.tests.cordium")
        Caller(platform, METRICS_TOKEN).call()
        Caller(platform).call(f"/no.such.Service/{access}")
        last = last_sequence(platform)
        assert eventually(lambda: last in receiver.sequences() and receiver.metrics, 15)
        assert eventually(lambda: has_come(stream.messages, last), 15)
        time.sleep(1.5)
        places = {
            "OTLP logs": "\n".join(str(r) for r in receiver.records),
            "OTLP metrics": "\n".join(str(m) for m in receiver.metrics),
            "syslog": "\n".join(stream.messages),
            "/metrics": scrape(metrics),
        }
        with open(os.path.join(platform.folder, "gateway.log"), errors="replace") as log:
            places["the daemon's log"] = log.read()
    for place, text in places.items():
        assert len(text) > 100, place
        for secret in [*sentinels, access, token, platform.env["OCTELIUM_AUTH_TOKEN"], API_KEY, METRICS_TOKEN]:
            assert secret not in text, f"{place} holds a secret that begins with {secret[:12]}"
    stream.stop()


@test
def malformed_settings_are_refused_with_their_line(platform):
    open_file = secret_file(platform, "open.token", METRICS_TOKEN + "\n", 0o644)
    short = secret_file(platform, "short.token", "password\n")
    bad_headers = secret_file(platform, "bad.headers", f"X-Key: {API_KEY}\nno header\n")
    cases = [
        ("otlpEndpoint: collector:4318", ":7: 'otlpEndpoint': expected http://"),
        ("otlpEndpoint: http://user:word@collector", ":7: 'otlpEndpoint': expected http://"),
        ("otlpEndpoint: http://192.0.2.1:4318", "telemetry.allowPlaintext"),
        ("syslogTarget: tcp://192.0.2.1", "telemetry.allowPlaintext"),
        ("syslogTarget: tls://a", ":7: 'syslogTarget': expected udp://"),
        ("syslogFacility: 24", ":7: 'syslogFacility': expected a whole number from 0 to 23"),
        ("metricsListen: 0.0.0.0:9464", ":7: 'metricsListen': expected ADDRESS:PORT with an address of loopback"),
        ("queueMebibytes: 0", ":7: 'queueMebibytes'"),
        ("otlp: true", ":7: 'otlp': no such setting"),
    ]
    at_start = [
        (f"metricsTokenFile: {open_file}", "chmod 600"),
        (f"metricsTokenFile: {short}", "32 to 1024 characters"),
        ("metricsTokenFile: nowhere", "No such file"),
        (f"otlpEndpoint: http://127.0.0.1:1\n  otlpHeadersFile: {bad_headers}", "bad.headers:2:"),
        ("otlpEndpoint: http://127.0.0.1:1\n  otlpCABundle: nowhere", "cannot be read"),
    ]
    daemons = Daemons(platform)
    daemons.stop("gateway")
    path = os.path.join(platform.folder, "bad.yaml")
    try:
        for command, list_ in (("check", cases), ("serve", at_start)):
            for text, expected in list_:
                with open(path, "w") as file:
                    file.write(f"stateDir: {platform.folder}/gateway\nexecutorSocket: {platform.folder}/run/executor.sock\n"
                               f"listen:\n  port: 0\n\ntelemetry:\n  {text}\n")
                os.chmod(path, 0o644)
                done = subprocess.run(
                    ["setpriv", f"--reuid={daemons.uid}", f"--regid={daemons.uid}", "--clear-groups", "--",
                     os.path.realpath(os.path.join(platform.bin, "cordium-gateway")), command, "--config", path],
                    capture_output=True, text=True, timeout=20)
                assert done.returncode == 1 and expected in done.stderr, (text, done)
                assert API_KEY not in done.stderr and METRICS_TOKEN not in done.stderr
    finally:
        daemons.up()


@test
def the_gateway_is_as_before_without_telemetry(platform):
    """Last: leaves the platform as the other tests expect it."""
    os.unlink(os.path.join(platform.folder, "gateway.more.yaml"))
    daemons = Daemons(platform)
    daemons.stop("gateway")
    daemons.up()
    with open(os.path.join(platform.folder, "gateway.yaml")) as file:
        assert "telemetry" not in file.read()
    assert Caller(platform, admin(platform)).call()[0] == 200


if __name__ == "__main__":
    for line in skipped:
        print("skipped", line)
    if skipped and os.environ.get("MUST_WORK") == "1":
        sys.exit("a test that must work was skipped")
    main()
