"""What some cases need around their run: set-up, a look afterwards, an own meaning.

NOTES is what the table says of a case whose words this product means otherwise on purpose.
"""

import base64
import glob
import hashlib
import json
import os
import signal
import socket
import subprocess
import threading
import time

import audit_files
from client import Client

SPECIAL = {}

ENDS_WITH_IT = ("everything of a Run ends with its program; a background process of an exec in a workspace "
                "may outlive the exec, and ends with the workspace")

NOTES = {
    "01-sleeping-grandchild.sh": ENDS_WITH_IT,
    "02-background-holds-stdout.sh": ENDS_WITH_IT,
    "03-double-fork-daemon.py": ENDS_WITH_IT,
    "29-cpu-quota.c": "judged by the kernel's accounts: at most the quota of the time it ran, and less than it "
                      "only when the machine had no more to give",
    "27-tmpfs-counts.py": "/tmp and /var/tmp are part of the disk limit, /dev/shm is part of the memory limit",
    "36-proc-sys-write.py": "what is hidden is the null device: it opens, and takes nothing",
    "58-matplotlib-no-home.py": "matplotlib warns that Debian's font has no Chinese characters",
    "61-ulimits.sh": "the soft limit of descriptors is 1,024; a server may raise it to 65,536 at most",
    "39-socket-families.c": "IPv6 and NETLINK_ROUTE are let in; without a network they reach loopback alone",
    "31-compile-hang.c": "a compiler is a Run like any other: its own limits, its own outcome",
    "66-inode-exhaustion.py": "btrfs has no table of inodes that could fill: files count by their bytes "
                              "against the disk limit, and the pool's file system is not the host's",
    "65-disk-full-many-files.py": "diskFull tells what the quota says while and after the program runs; "
                                  "space that is freed again within 100 ms goes unseen",
    "69-symlink-out.sh": "files come back through a program inside the sandbox: links are listed, never followed",
    "86-tty.c": "TIOCSTI is refused before the descriptor is looked at (EPERM); terminals belong to workspaces",
    "89-exit-in-session.sh": "a session is a workspace and its execs",
    "90-session-cwd-env.sh": "a session is a workspace and its execs",
    "93-rename-over-api.py": "uploads go to workspaces (cordium cp)",
    "92-orphan-after-executor-kill.sh": "the answer is outcome lost; the next executor removes what is left",
}


class Special:
    def __init__(self, function, prepare, replaces, own_meaning):
        self.function, self.prepare = function, prepare
        self.replaces, self.own_meaning = replaces, own_meaning


def special(name, prepare=None, replaces=False, own_meaning=()):
    def take(function):
        SPECIAL[name] = Special(function, prepare, replaces, own_meaning)
        return function
    return take


# --- helpers ---


def processes_of(run_id):
    """Host processes that have the run's id in their environment; the host sees all of them."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as environ:
                if f"CORDIUM_RUN_ID={run_id}".encode() in environ.read():
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


def none_left(result, seconds=0.5):
    end = time.monotonic() + seconds
    while left := processes_of(result["runId"]):
        if time.monotonic() > end:
            return [f"processes are left: {left}"]
        time.sleep(0.02)
    return []


def text_of(result, stream="stdout"):
    return result.get(stream, {}).get("text", "")


def expect(what, holds):
    return [] if holds else [what]


def audit_lines(bench):
    return audit_files.text(os.path.join(bench.folder, "gateway", "audit")).split(b"\n")[:-1]


def after(name, **options):
    """No process of the run is left."""
    @special(name, **options)
    def look(bench, result, seconds):
        return none_left(result)
    return look


after("01-sleeping-grandchild.sh")
after("02-background-holds-stdout.sh")
after("03-double-fork-daemon.py")


@special("09-bounded-fork-bomb.c")
def fork_bomb(bench, result, seconds):
    began = time.monotonic()
    again = bench.client.run(template="box.cases.admin", argv=["true"], limits=bench.limits)
    return none_left(result) + expect("a second run starts at once",
                                      again["exitCode"] == 0 and time.monotonic() - began < 1)


def peak_of(bench, name):
    with open(os.path.join(bench.folder, name + ".pid")) as file:
        pid = file.read().strip()
    with open(f"/proc/{pid}/status") as lines:
        return next(int(l.split()[1]) for l in lines if l.startswith("VmRSS"))


@special("11-output-flood.py", prepare=lambda bench: setattr(bench, "before", peak_of(bench, "executor")) or {})
def flood(bench, result, seconds):
    grown = peak_of(bench, "executor") - bench.before
    return expect(f"the executor grew by {grown} KiB", grown < 1024)


@special("14-invalid-utf8.py")
def bytes_back(bench, result, seconds):
    data = base64.b64decode(result["stdout"].get("data", ""))
    return expect(f"bytes are {data.hex()}", data == bytes.fromhex("6f6b0afffe0080c328eda080f09f980a"))


@special("16-interleave.py", prepare=lambda bench: {"mergeOutput": True})
def merged(bench, result, seconds):
    order = "".join(c.get("text", "") for c in result.get("merged", ())).split()
    return expect(f"order is {order}", order == [f"{s}{i}" for i in range(10) for s in "oe"])


@special("19-stdin-not-read.py", prepare=lambda bench: {"stdin": "x" * (1 << 20)})
def unread(bench, result, seconds):
    return []


@special("23-segfault-sparse-core.c", prepare=lambda bench: {"collect": ["**"]})
def no_core(bench, result, seconds):
    names = [f["path"] for f in result.get("files", ())]
    return expect(f"files are {names}", names == ["program"])


@special("26-memory-just-over.py")
def over_memory(bench, result, seconds):
    again = bench.client.run(template="box.cases.admin", argv=["true"], limits=bench.limits)
    return expect("the next run starts", again.get("exitCode") == 0)


@special("27-tmpfs-counts.py")
def full_tmp(bench, result, seconds):
    out, wrong = text_of(result), []
    for line in out.splitlines():
        size = int(line.split()[1])
        allowed = ("ENOSPC", "EDQUOT") if size else ("ENOSPC", "EDQUOT", "EACCES", "EROFS", "ENOENT")
        if line.split()[-1] not in allowed or size > (96 if line.startswith("/dev/shm") else 64):
            wrong.append(line)
    return expect(f"{wrong}", not wrong)


def other_run(bench):
    """A small run beside the case's."""
    bench.beside = []

    def go():
        time.sleep(0.7)
        began = time.monotonic()
        bench.client.run(template="box.cases.admin", argv=["true"])
        bench.beside.append(time.monotonic() - began)

    bench.thread = threading.Thread(target=go)
    bench.binary()
    bench.thread.start()
    return {}


class Throttling(threading.Thread):
    """In how many periods of 100 ms the kernel held the run's sandbox back, from its cpu.stat: in each it
    had used up its quota, so that less CPU than that is not for want of quota."""

    def __init__(self):
        super().__init__(daemon=True)
        self.is_over = threading.Event()
        self.counts = []
        self.start()

    def run(self):
        path = None
        while not self.is_over.wait(0.05):
            path = path or self.find()
            if path:
                try:
                    with open(path) as lines:
                        self.counts.append(next(int(l.split()[1]) for l in lines if l.startswith("nr_throttled")))
                except OSError:
                    return  # the group is gone

    @staticmethod
    def find():
        for folder in glob.glob("/proc/[0-9]*"):
            try:
                with open(folder + "/cmdline", "rb") as file:
                    if file.read() != b"./program\0":
                        continue
                with open(folder + "/cgroup") as lines:
                    groups = {l.split(":")[1]: l.strip().split(":", 2)[2] for l in lines}
            except OSError:
                continue
            for name, base in (("cpu", "/sys/fs/cgroup/cpu"), ("cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
                               ("", "/sys/fs/cgroup")):
                # The limit is the sandbox's: INSTANCE/sN, and the run's group lies in it.
                path = "/".join([base, *groups.get(name, "").strip("/").split("/")[:2], "cpu.stat"])
                if os.path.exists(path):
                    return path
        return None

    def periods(self):
        self.is_over.set()
        self.join()
        return self.counts[-1] - self.counts[0] if self.counts else None


def other_run_and_throttling(bench):
    bench.throttling = Throttling()
    return other_run(bench)


PERIOD_MS = 100


@special("29-cpu-quota.c", prepare=other_run_and_throttling, own_meaning=("cpu_ms >=", "cpu_ms <="))
def quota(bench, result, seconds):
    """One CPU, by the kernel's accounts alone: never more than the quota of the time that it ran, and if
    less than the case says, then because the machine had no more to give: it was not held back."""
    bench.thread.join()
    periods = bench.throttling.periods()
    said = int(text_of(result).strip().partition("=")[2] or 0)
    counted = int(result["usage"]["cpuMs"])
    wall = int(result["usage"]["wallMs"])
    return expect(f"cpu_ms is {counted} in {wall} ms, over one CPU", counted <= wall + 3 * PERIOD_MS) + \
        expect(f"cpu_ms is {counted}, held back in {periods} periods of {PERIOD_MS} ms",
               counted >= 1500 or (periods is not None and periods * PERIOD_MS <= counted + 2 * PERIOD_MS)) + \
        expect(f"the program says {said} ms, the result {counted} ms", abs(said - counted) < 0.15 * counted) + \
        expect(f"a run beside it took {bench.beside}", bench.beside and bench.beside[0] < 1)


@special("31-compile-hang.c", own_meaning=("exit_code", "outcome"))
def compile_hang(bench, result, seconds):
    fine = (result.get("exitCode", 0) != 0 and result["facts"].get("oomKills", 0) >= 1) or \
        result["outcome"] in ("oom_killed", "timed_out")
    return expect(f"outcome {result['outcome']}, {result.get('facts')}", fine) + expect("wall <= 6 s", seconds <= 6)


def errnos(text):
    """{"attach 1": 1, …}: what a line says before errno=N."""
    lines = (l.split() for l in text.splitlines() if "errno=" in l)
    return {" ".join(w for w in words if "errno=" not in w): int(next(w for w in words if "errno=" in w)[6:])
            for words in lines}


@special("34-ptrace-pid1.c")
def ptrace(bench, result, seconds):
    found = errnos(text_of(result))
    return expect(text_of(result), found and set(found.values()) <= {1, 3} and "REACHED" not in text_of(result))


@special("39-socket-families.c")
def families(bench, result, seconds):
    """IPv6 and the routing table are let in: without a network they reach nothing but loopback."""
    out = text_of(result)
    fine = {l.split()[0] for l in out.splitlines() if l.endswith(" ok")}
    # EACCES of a ping socket is the kernel's own no: nobody is in net.ipv4.ping_group_range.
    wrong = {n: e for n, e in errnos(out).items() if e not in (1, 97, 94, 93) and (n, e) != ("inet-ping", 13)}
    return expect(f"open: {fine}", {"inet-stream", "inet-dgram", "unix"} <= fine <=
                  {"inet-stream", "inet-dgram", "unix", "inet6-stream", "netlink-route"}) + \
        expect(f"{wrong}", not wrong)


@special("51-keyring.c")
def keyring(bench, result, seconds):
    found = errnos(text_of(result))
    return expect(text_of(result), len(found) == 3 and set(found.values()) <= {1, 38})


@special("53-kernel-surface.c")
def surface(bench, result, seconds):
    out = text_of(result)
    return expect(out, "REACHED" not in out and "ENTERED" not in out and set(errnos(out).values()) <= {1, 38})


@special("54-threads-and-clone3.c")
def clone3(bench, result, seconds):
    out = text_of(result)
    return expect(out, errnos(out).get("clone3") in (22, 38) and "thread ok" in out and "spawn ok" in out)


@special("68-hard-to-delete.sh")
def hard_to_delete(bench, result, seconds):
    """The sandbox's own storage is gone: the executor knows no other than those that live."""
    root = os.path.join(bench.folder, "executor")
    found = lambda: [p for p in glob.glob(root + "/**/rootlink", recursive=True) if os.path.islink(p)]
    end = time.monotonic() + 5
    while found() and time.monotonic() < end:
        time.sleep(0.1)
    with open(os.path.join(bench.folder, "executor.log"), "rb") as log:
        said = [l for l in log.read().splitlines() if b"delete" in l or b"remove" in l]
    return expect(f"left: {found()}", not found()) + expect(f"the log says {said[:2]}", not said)


@special("80-visible-limits.py")
def visible(bench, result, seconds):
    return expect(text_of(result), "limit 134217728" in text_of(result).splitlines())


def canaries(bench):
    bench.sockets = []
    for address in ("\0sbx-canary", "/tmp/sbx-canary.sock"):
        if address[0] == "/" and os.path.exists(address):
            os.unlink(address)
        s = socket.socket(socket.AF_UNIX)
        s.bind(address)
        s.listen(4)
        c = socket.socket(socket.AF_UNIX)
        c.connect(address)  # the control: outside it is reached
        c.close()
        bench.sockets.append(s)
    return {}


@special("40-abstract-unix-socket.py", prepare=canaries)
def sockets(bench, result, seconds):
    for s in bench.sockets:
        s.close()
    os.unlink("/tmp/sbx-canary.sock")
    lines = text_of(result).splitlines()
    return expect(f"{lines}", "abstract errno=111" in lines and "path errno=2" in lines and "own ok" in lines) + \
        expect("REACHED", "REACHED" not in text_of(result))


@special("36-proc-sys-write.py", own_meaning=("no 'WRITABLE'",))
def proc_sys(bench, result, seconds):
    """A file that is hidden behind the null device can be opened for writing, and nothing is written."""
    opened = [l.split()[1] for l in text_of(result).splitlines() if l.startswith("WRITABLE")]
    code = "import os,sys\nfor p in sys.argv[1:]:\n    s = os.stat(p)\n    print(oct(s.st_mode & 0o170000), s.st_rdev)"
    seen = bench.client.run(template="box.cases.admin", language="python", code=code, argv=opened) if opened else {}
    return expect(f"opened: {opened}", all(l == f"0o20000 {os.makedev(1, 3)}" for l in text_of(seen).splitlines()))


@special("43-dns.py")
def dns(bench, result, seconds):
    out = text_of(result)
    return expect(out, "RESOLVED" not in out.replace("localhost. RESOLVED 127.0.0.1", "").replace(
        "localhost. RESOLVED ::1", "") and "ANSWERED" not in out) + expect(f"{seconds:.1f} s", seconds <= 2.5)


DOCUMENTED = set("PATH HOME LANG TZ USER LOGNAME USERNAME MPLCONFIGDIR OMP_NUM_THREADS OPENBLAS_NUM_THREADS "
                 "MKL_NUM_THREADS SANDBOX_MEMORY_BYTES SANDBOX_CPU_MILLICORES SANDBOX_PIDS SANDBOX_WALL_MS "
                 "CORDIUM_RUN_ID LC_CTYPE PWD SHLVL OLDPWD _".split())


@special("45-env-leak.py")
def env_leak(bench, result, seconds):
    out = text_of(result)
    names = set(bench.client.run(template="box.cases.admin", language="python",
                                 code="import os\nprint(*os.environ)")["stdout"]["text"].split())
    return expect("do-not-leak", "do-not-leak" not in out) + \
        expect(f"not documented: {sorted(names - DOCUMENTED)}", names <= DOCUMENTED)


@special("48-uid-and-files.sh",
         prepare=lambda bench: {"files": [{"path": "given.txt", "text": "given\n"}], "collect": ["*.txt"]})
def files_back(bench, result, seconds):
    files = {f["path"]: f.get("text") for f in result.get("files", ())}
    return expect(f"{files}", files == {"given.txt": "given\nmore\n", "new.txt": "x\n"}) + \
        expect("root on the host", text_of(result).splitlines()[0] != "0")


@special("49-privileges.c")
def privileges(bench, result, seconds):
    lines = dict(l.split(":", 1) for l in text_of(result).splitlines() if ":" in l)
    wrong = [f"{k}:{v}" for k, v in lines.items() if k in ("CapEff", "CapPrm", "CapBnd", "CapAmb") and int(v, 16)]
    return expect(f"{wrong}", not wrong) + expect("NoNewPrivs", lines.get("NoNewPrivs", "").strip() == "1") + \
        expect("Seccomp", lines.get("Seccomp", "").strip() == "2")


@special("58-matplotlib-no-home.py", own_meaning=("stderr is",))
def plot(bench, result, seconds):
    """Debian's font has no Chinese: matplotlib says so, whatever the sandbox."""
    lines = [l for l in text_of(result, "stderr").splitlines() if "Glyph" not in l and "savefig" not in l]
    return expect(f"stderr: {lines}", not lines)


@special("59-numpy-threads.py")
def threads(bench, result, seconds):
    lines = dict(l.split(" ", 1) for l in text_of(result).splitlines() if " " in l)
    return expect(f"{lines}", lines.get("OMP_NUM_THREADS") == "1" and lines.get("OPENBLAS_NUM_THREADS") == "1" and
                  int(lines["threads"]) <= 8)


@special("61-ulimits.sh")
def ulimits(bench, result, seconds):
    out = text_of(result)
    values = {}
    for line in out.splitlines():
        name, soft, hard = line.split()
        values[name] = (soft.partition("=")[2], hard.partition("=")[2])
    def number(text, unlimited):
        return unlimited if text == "unlimited" else int(text)
    return expect(f"core {values['c']}", values["c"] == ("0", "0")) + \
        expect(f"nofile {values['n']}", 256 <= number(values["n"][0], 1 << 30) <= 4096 and
               number(values["n"][1], 1 << 30) <= 65536) + \
        expect(f"memlock {values['l']}", all(number(v, 1 << 30) <= 8192 for v in values["l"])) + \
        expect(f"stack {values['s']}", values["s"][0] == "8192") + \
        expect(f"virtual memory {values['v']}", values["v"][0] == "unlimited")


@special("63-sparse-file.py", prepare=lambda bench: {"collect": ["**"]})
def sparse(bench, result, seconds):
    files = {f["path"]: f for f in result.get("files", ())}
    one = files.get("sparse.bin", {})
    return expect(f"{one}", "EFBIG" in text_of(result) or
                  (one.get("sizeBytes") == "4398046511104" and one.get("skipped") == "too large")) + \
        expect(f"took {seconds:.1f} s", seconds < 3)


@special("65-disk-full-many-files.py", own_meaning=("disk_full", "output matches"))
def disk_full(bench, result, seconds):
    import re
    m = re.match(r"wrote=(\d+) (ENOSPC|EDQUOT) then=ok$", text_of(result).strip())
    stays = bench.client.run(template="box.cases.admin", limits=bench.limits, language="sh",
                             code="dd if=/dev/zero of=full bs=1M 2>/dev/null; sync; exit 0")
    return expect(text_of(result), m and int(m.group(1)) <= 64) + \
        expect(f"a full disk is told: {stays.get('facts')}", stays["facts"].get("diskFull"))


@special("66-inode-exhaustion.py",
         prepare=lambda bench: setattr(bench, "inodes", os.statvfs("/").f_ffree) or {},
         own_meaning=("output matches", "made < 4096"))
def inodes(bench, result, seconds):
    used = bench.inodes - os.statvfs("/").f_ffree
    return expect(text_of(result), text_of(result).startswith("made=")) + \
        expect(f"the host lost {used} inodes", used < 1000) + expect(f"{seconds:.1f} s", seconds < 8)


@special("69-symlink-out.sh", prepare=lambda bench: {"collect": ["**"]})
def links(bench, result, seconds):
    files = {f["path"]: f for f in result.get("files", ())}
    regular = {p for p, f in files.items() if not f.get("skipped")}
    with open("/etc/passwd") as passwd:
        host = passwd.readline().strip()
    return expect(f"content of {sorted(regular)}", regular == {"main.sh", "real.txt"}) + \
        expect("links are listed", {"leak", "dirlink", "loop", "chain"} <= set(files)) + \
        expect("a line of the host", host not in json.dumps(result)) + \
        expect("a file outside", not os.path.exists("/tmp/sbx-written-by-api"))


@special("71-special-files.py", prepare=lambda bench: {"collect": ["**"]})
def special_files(bench, result, seconds):
    files = {f["path"]: f.get("skipped", "") for f in result.get("files", ())}
    return expect(f"{files}", files.get("fifo") == "named pipe" and files.get("sock") == "socket") + \
        expect(f"{seconds:.1f} s", seconds < 2)


def neighbour(bench):
    token = other_tenant(bench)
    other = Client(bench.client.env, token=token)
    code = ("import os, time\n"
            "for d in ('/workspace', '/tmp', '/dev/shm'):\n    open(d + '/tenant-b-canary', 'w').close()\n"
            "print('ready', flush=True)\ntime.sleep(6)\n")
    bench.connection = other.begin(image="docker.io/library/python:3.13-slim", code=code, language="python",
                                   argv=["tenant-b-canary"], cancelOnDisconnect=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        items = other.service("ListRuns", isActive=True).get("items", [])
        if items and items[0]["state"] == "RUNNING":
            break
        time.sleep(0.1)
    time.sleep(0.5)
    return {}


def other_tenant(bench):
    name = "tenant-" + hex(time.time_ns())[-7:]
    made = bench.client.cli("create", "user", name, "--type", "WORKLOAD")
    assert made.returncode == 0, made.stderr
    token = bench.client.cli("create", "credential", name, "--user", name)
    assert token.returncode == 0, token.stderr
    return token.stdout.strip()


@special("72-other-runs.py", prepare=neighbour)
def other_runs(bench, result, seconds):
    bench.connection.close()
    return []


@special("74-nonblock-stdio.c")
def nonblock(bench, result, seconds):
    code = "import sys\nsys.stdout.write('x' * 50000)"
    lost = [i for i in range(100) if int(bench.client.run(
        template="box.cases.admin", language="python", code=code)["stdout"]["totalBytes"]) != 50000]
    return expect(f"output lost in runs {lost}", not lost)


@special("77-nul-in-source.sh", own_meaning=("exit_code",))
def nul(bench, result, seconds):
    source = b"print(1)\0print(2)\n"
    direct = bench.client.run(template="box.cases.admin", language="python",
                              codeBytes=base64.b64encode(source).decode(), collect=["main.py"])
    digest = hashlib.sha256(source).hexdigest()
    back = base64.b64decode(direct["files"][0].get("data", ""))
    return expect(text_of(result), text_of(result).strip().startswith("18")) + \
        expect(f"the file is {back!r}", back == source) + \
        expect("null bytes", direct["exitCode"] == 1 and "null bytes" in text_of(direct, "stderr")) + \
        expect("SHA-256 in the audit log", any(digest.encode() in line for line in audit_lines(bench)))


@special("78-large-source.sh")
def large(bench, result, seconds):
    code = "import os,sys\n#" + "p" * 400000 + "\nprint(os.path.getsize(__file__), len(sys.argv))\n"
    direct = bench.client.run(template="box.cases.admin", language="python", code=code, argv=["word"] * 200)
    return expect(text_of(direct), text_of(direct).split() == [str(len(code)), "201"])


@special("81-sysv-ipc.c")
def ipc(bench, result, seconds):
    again, _ = bench.run()
    return expect(text_of(again), text_of(again) == "fresh\n")


@special("83-log-injection.py", prepare=lambda bench: setattr(bench, "before", len(audit_lines(bench))) or
         {"files": [{"path": "a\nb", "text": "x"}]})
def log_injection(bench, result, seconds):
    time.sleep(0.3)
    lines = audit_lines(bench)[bench.before:]
    kinds = [json.loads(line)["kind"] for line in lines]
    bad = [c for c in b"".join(lines) if c < 32 or c == 127]
    own = [kind for kind in kinds if kind != "AuditCheckpoint"]
    return expect(f"{own} for one run", own == ["AccessLog", "AccessLog"]) + expect(f"raw {bad[:5]}", not bad)


def secret_template(bench):
    """API_TOKEN as a Secret of the Space."""
    bench.client.cli("create", "secret", "api-token.cases.admin", "--value", "sbx-sentinel-7f3e9a")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "template.yaml")) as file:
        spec = file.read().replace("  runtime:\n", "  runtime:\n    envVars:\n      - key: API_TOKEN\n"
                                   "        fromSecret: api-token.cases.admin\n")
    path = os.path.join(bench.folder, "secret-template.yaml")
    with open(path, "w") as file:
        file.write(spec)
    bench.client.cli("create", "template", "secret.cases.admin", "--file", path)
    return {"template": "secret.cases.admin"}


@special("84-secret-echo.py", prepare=secret_template, own_meaning=("exit_code",))
def secret(bench, result, seconds):
    sentinel = b"sbx-sentinel-7f3e9a"
    forms = (sentinel, base64.b64encode(sentinel), sentinel.hex().encode(), sentinel[::-1])
    logs = b"\n".join(audit_lines(bench))
    for name in ("gateway.log", "executor.log"):
        with open(os.path.join(bench.folder, name), "rb") as file:
            logs += file.read()
    return expect("the reply holds it", sentinel.decode() in text_of(result)) + \
        expect("a log holds it", not any(f in logs for f in forms)) + \
        expect(f"exit code {result.get('exitCode')}", result["outcome"] == "exited" and result["exitCode"] == 1)


@special("86-tty.c")
def tty(bench, result, seconds):
    lines = text_of(result).splitlines()
    return expect(f"{lines}", lines[:2] == ["tty 0 0 0", "ctty errno=6"] and lines[2] in ("sti errno=25", "sti errno=1"))


@special("87-cancel.py", replaces=True)
def cancel(bench):
    connection = bench.client.begin(**bench.request(cancelOnDisconnect=True))
    end = time.monotonic() + 20
    items = []
    while time.monotonic() < end and not (items and items[0]["state"] == "RUNNING"):
        items = bench.client.service("ListRuns", isActive=True).get("items", [])
    time.sleep(0.5)
    connection.sock.close()
    began = time.monotonic()
    while bench.client.service("ListRuns", isActive=True).get("items"):
        if time.monotonic() - began > 5:
            return ["it runs on"]
    took = time.monotonic() - began
    result = bench.client.service("GetRun", runId=items[0]["runId"])
    lines = [json.loads(l) for l in audit_lines(bench)]
    ends = [l for l in lines if items[0]["runId"] in json.dumps(l)]
    return none_left(result) + expect(f"took {took:.2f} s", took < 0.6) + \
        expect(f"outcome {result['outcome']}", result["outcome"] == "cancelled") + \
        expect("output so far", text_of(result).startswith("tick 0\n")) + \
        expect("an audit line tells who and why", any("cancelled" in json.dumps(l) for l in ends))


def session(bench):
    """A workspace of the cases' Template; gives its name."""
    made = bench.client.cli("create", "workspace", "--template", "box.cases.admin", "--ephemeral", "--start", "-o", "json")
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)["metadata"]["name"]


def in_session(bench, name, command, stdin=""):
    return bench.client.cli("exec", name, "--", "sh", "-c", command, stdin=stdin)


@special("89-exit-in-session.sh", replaces=True)
def exit_in_session(bench):
    name = session(bench)
    first = in_session(bench, name, bench.source.decode())
    second = in_session(bench, name, "echo alive")
    bench.client.cli("delete", "workspace", name)
    return expect(f"exit code {first.returncode}", first.returncode == 7) + \
        expect(second.stdout, second.stdout == "alive\n")


@special("90-session-cwd-env.sh", replaces=True)
def session_state(bench):
    look = "pwd; echo ${SBX_X:-unset}; cat keep.txt"
    one, other = session(bench), session(bench)
    in_session(bench, one, bench.source.decode())
    same, fresh = in_session(bench, one, look), in_session(bench, other, look)
    for name in (one, other):
        bench.client.cli("delete", "workspace", name)
    return expect(same.stdout, same.stdout == "/workspace\nunset\nkept\n") + \
        expect(fresh.stdout, "kept" not in fresh.stdout)


@special("92-orphan-after-executor-kill.sh", replaces=True)
def executor_kill(bench):
    answers = []

    def go():
        try:
            answers.append(bench.client.run(**bench.request()))
        except Exception as error:  # what came instead is the finding
            answers.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    time.sleep(1.5)
    with open(os.path.join(bench.folder, "executor.pid")) as file:
        os.kill(int(file.read()), signal.SIGKILL)
    time.sleep(0.3)
    subprocess.run(["tests/demo/platform.sh", "up", bench.folder], check=True, capture_output=True, timeout=60)
    thread.join()
    result = answers[0]
    if not isinstance(result, dict):
        return [f"the answer was {result}"]
    left = none_left(result, 5)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            if bench.client.run(template="box.cases.admin", argv=["true"])["exitCode"] == 0:
                break
        except Exception:
            time.sleep(0.2)
    kept = bench.client.service("GetRun", runId=result["runId"])
    return left + expect(f"outcome {result['outcome']}", result["outcome"] == "lost") + \
        expect("a reason", kept.get("detail")) + expect("it is recorded", kept["outcome"] == "lost")


@special("93-rename-over-api.py", replaces=True)
def rename(bench):
    name = session(bench)
    paths = []
    for size in (5 << 20, 10):
        paths.append(os.path.join(bench.folder, f"up-{size}"))
        with open(paths[-1], "wb") as file:
            file.write(b"u" * size)
    program = threading.Thread(target=lambda: answers.append(
        in_session(bench, name, "python3 -", bench.source.decode())))
    answers = []
    bench.client.cli("cp", paths[1], f"{name}:/workspace/up.bin")
    program.start()
    uploads = [bench.client.cli("cp", path, f"{name}:/workspace/up.bin").returncode for path in paths * 2]
    program.join()
    bench.client.cli("delete", "workspace", name)
    sizes = answers[0].stdout.strip()
    return expect(f"uploads {uploads}", not any(uploads)) + \
        expect(sizes, sizes in ("sizes [10, 5242880]", "sizes [10]", "sizes [5242880]"))
