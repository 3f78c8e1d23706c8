"""Who receives telemetry in the tests: an OTLP receiver that parses strictly and answers what it is told,
syslog receivers that read RFC 5424 by the letter, and the real programs: the OpenTelemetry Collector,
rsyslog, Prometheus."""

import http.server
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time

from harness import eventually

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def assert_all_known(message):
    """No field, however deep, that the schema does not have."""
    from google.protobuf import unknown_fields

    assert len(unknown_fields.UnknownFieldSet(message)) == 0, message
    for field, value in message.ListFields():
        if field.message_type:
            for inner in value if field.is_repeated else [value]:
                assert_all_known(inner)


class OtlpReceiver:
    """An OTLP/HTTP receiver. `answers` are taken first, one a request to /v1/logs:
    (status, headers, body). delay: seconds before each answer."""

    def __init__(self, port=None, certificate=None):
        from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

        self.port = port or free_port()
        self.records = []  # of the batches that were taken
        self.metrics = []  # requests
        self.batches = []  # sizes
        self.requests = []  # (path, headers)
        self.answers = []
        self.delay = 0
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests.append((self.path, dict(self.headers)))
                assert self.headers["content-type"] == "application/x-protobuf", self.headers
                time.sleep(receiver.delay)
                if self.path.endswith("/v1/metrics"):
                    message = metrics_service_pb2.ExportMetricsServiceRequest.FromString(body)
                    assert_all_known(message)
                    receiver.metrics.append(message)
                    return self.answer(200, {}, b"")
                message = logs_service_pb2.ExportLogsServiceRequest.FromString(body)
                assert_all_known(message)
                status, headers, answer = receiver.answers.pop(0) if receiver.answers else (200, {}, b"")
                if status // 100 == 2:
                    for resource in message.resource_logs:
                        for scope in resource.scope_logs:
                            receiver.batches.append(len(scope.log_records))
                            receiver.records += scope.log_records
                self.answer(status, headers, answer)

            def answer(self, status, headers, body):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            allow_reuse_address = True
            daemon_threads = True

        self.server = Server(("127.0.0.1", self.port), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def sequences(self):
        return [int(attributes(r)["cordium.audit.sequence"]) for r in self.records]


def plain(value):
    """An AnyValue as Python's own."""
    kind = value.WhichOneof("value")
    if kind == "kvlist_value":
        return {item.key: plain(item.value) for item in value.kvlist_value.values}
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None


def attributes(record):
    return {item.key: plain(item.value) for item in record.attributes}


def points(request):
    """{(name, labels): point} of a metrics request."""
    found = {}
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                data = getattr(metric, metric.WhichOneof("data"))
                for point in data.data_points:
                    labels = tuple(sorted((a.key, plain(a.value)) for a in point.attributes))
                    found[metric.name, labels] = point
    return found


HEADER = re.compile(
    r"<(?P<pri>\d{1,3})>1 (?P<time>-|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z) (?P<host>[!-~]{1,255}) "
    r"(?P<app>[!-~]{1,48}) (?P<pid>[!-~]{1,128}) (?P<id>[!-~]{1,32}) \[(?P<sd>[!-~]{1,64})"
)
PARAMETER = re.compile(r' (?P<name>[!-<>-\[^-~]{1,32})="(?P<value>(?:[^"\\\]]|\\.)*)"')


def read_syslog(text):
    """A message of RFC 5424 by its grammar; gives (header, parameters, message)."""
    head = HEADER.match(text)
    assert head, text[:200]
    at = head.end()
    parameters = {}
    while found := PARAMETER.match(text, at):
        parameters[found["name"]] = re.sub(r"\\([\\\"\]])", r"\1", found["value"])
        at = found.end()
    assert text[at : at + 2] == "] ", text[at : at + 40]
    return head.groupdict(), parameters, text[at + 2 :]


class SyslogStream:
    """A TCP receiver with octet counting, RFC 6587."""

    def __init__(self, port=None):
        self.messages = []
        self.connections = []
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port or 0))
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        self.is_reading = threading.Event()
        self.is_reading.set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.read, args=(connection,), daemon=True).start()

    def read(self, connection):
        data = b""
        while True:
            self.is_reading.wait()
            try:
                more = connection.recv(65536)
            except OSError:
                return
            if not more:
                return
            data += more
            while b" " in data[:10]:
                digits, _, rest = data.partition(b" ")
                assert digits.isdigit() and not digits.startswith(b"0"), data[:40]
                if len(rest) < int(digits):
                    break
                self.messages.append(rest[: int(digits)].decode())
                data = rest[int(digits) :]

    def drop(self):
        """Closes the connections, and takes new ones."""
        for connection in self.connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self.connections = []

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.drop()


class SyslogDatagrams:
    def __init__(self, path=None):
        self.messages = []
        self.socket = socket.socket(socket.AF_UNIX if path else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(path or ("127.0.0.1", 0))
        if path:
            os.chmod(path, 0o666)
        else:
            self.port = self.socket.getsockname()[1]
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            try:
                self.messages.append(self.socket.recv(1 << 20).decode())
            except OSError:
                return

    def stop(self):
        self.socket.close()


class Program:
    """A real receiver as a process of its own."""

    def __init__(self, words, log):
        self.log = log
        with open(log, "a") as file:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=ROOT)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def has_go():
    """As new a one as the Collector's modules ask for."""
    if not shutil.which("go"):
        return False
    with open(os.path.join(ROOT, "tests/tools/collector/go.mod")) as file:
        wanted = re.search(r"^go (\d+)\.(\d+)", file.read(), re.M)
    have = re.search(r"go(\d+)\.(\d+)", subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True).stdout)
    return bool(have) and [int(n) for n in have.groups()] >= [int(n) for n in wanted.groups()]


def collector_program():
    """The OpenTelemetry Collector of tests/tools/collector, built when it is not there; None without Go."""
    path = os.path.join(ROOT, "build", "collector", "collector")
    if not has_go():
        return path if os.path.exists(path) else None
    done = subprocess.run(["make", "-s", "build/collector/collector"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return path


COLLECTOR_CONFIG = """
receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:{port}
exporters:
  file/logs:
    path: {folder}/logs.json
    flush_interval: 100ms
  file/metrics:
    path: {folder}/metrics.json
    flush_interval: 100ms
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    logs: {{receivers: [otlp], exporters: [file/logs]}}
    metrics: {{receivers: [otlp], exporters: [file/metrics]}}
"""


def start_collector(program, folder, port):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.yaml"), "w") as file:
        file.write(COLLECTOR_CONFIG.format(port=port, folder=folder))
    running = Program([program, "--config", os.path.join(folder, "config.yaml")], os.path.join(folder, "log"))
    assert eventually(lambda: is_listening(port), 20), open(running.log).read()[-2000:]
    return running


def is_listening(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def json_lines(path):
    if not os.path.exists(path):
        return []
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def json_value(value):
    """An AnyValue of OTLP's JSON as Python's own."""
    for kind, inner in value.items():
        if kind == "kvlistValue":
            return {item["key"]: json_value(item["value"]) for item in inner.get("values", [])}
        if kind == "arrayValue":
            return [json_value(item) for item in inner.get("values", [])]
        return int(inner) if kind == "intValue" else inner
    return None
