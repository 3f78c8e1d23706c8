"""The daemons of a platform as processes: killed, started again, measured."""

import os
import signal
import subprocess
import sys

from harness import Platform, eventually


def root_of_tree():
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Daemons:
    def __init__(self, platform):
        self.platform = platform
        self.folder = platform.folder
        with open(os.path.join(self.folder, "executor.conf")) as lines:
            settings = dict(line.strip().split(" = ", 1) for line in lines if " = " in line)
        self.instance = settings["instance"]
        self.uid = int(settings["gateway_uid"])
        self.state = settings["state_dir"]
        # AddressSanitizer does, so that memory tells nothing.
        self.keeps_freed = os.path.basename(platform.bin) == "asan"

    def pid(self, name):
        with open(os.path.join(self.folder, name + ".pid")) as file:
            return int(file.read())

    def alive(self, name):
        try:
            os.kill(self.pid(name), 0)
        except (FileNotFoundError, ProcessLookupError):
            return False
        with open(f"/proc/{self.pid(name)}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"

    def signal(self, name, number):
        os.kill(self.pid(name), number)

    def kill(self, name):
        """SIGKILL, and waits until it is gone."""
        self.signal(name, signal.SIGKILL)
        assert eventually(lambda: not self.alive(name)), name

    def stop(self, name, seconds=15):
        self.signal(name, signal.SIGTERM)
        assert eventually(lambda: not self.alive(name), seconds), f"{name} did not stop"

    def up(self):
        """Starts what does not run, with the settings and at the port of before."""
        environment = dict(os.environ, GATEWAY_PORT=str(self.platform.port), NO_REGISTRY="1")
        done = subprocess.run(
            ["tests/demo/platform.sh", "up", self.folder],
            cwd=root_of_tree(),
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert Platform(self.folder).port == self.platform.port

    def start_gateway_alone(self):
        """Without an executor. platform.sh would start both."""
        binary = os.path.join(self.platform.bin, "cordium-gateway")
        with open(os.path.join(self.folder, "gateway.log"), "a") as log:
            process = subprocess.Popen(
                ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", "--"]
                + [os.path.realpath(binary), "--config", os.path.join(self.folder, "gateway.yaml")],
                cwd=root_of_tree(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        with open(os.path.join(self.folder, "gateway.pid"), "w") as file:
            file.write(f"{process.pid}\n")
        return process

    # What a daemon holds.

    def fds(self, name):
        """Open descriptors but for those of the executor's pools of cgroups and namespaces, which
        have bounds of their own."""
        folder = f"/proc/{self.pid(name)}/fd"
        count = 0
        for entry in os.listdir(folder):
            try:
                target = os.readlink(os.path.join(folder, entry))
            except OSError:
                continue  # closed meanwhile
            count += not target.startswith(("/sys/fs/cgroup/", "net:[", "user:["))
        return count

    def resident_kilobytes(self, name):
        with open(f"/proc/{self.pid(name)}/status") as lines:
            for line in lines:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        raise AssertionError("no VmRSS")

    def storages(self):
        """Names of all storages of the pool, snapshots too; seen through the executor's mounts."""
        pool = f"/proc/{self.pid('executor')}/root{self.state}/pool"
        return sorted(
            f"{place}/{name}"
            for place in ("storages", "ephemeral", "snapshots")
            if os.path.isdir(os.path.join(pool, place))
            for name in os.listdir(os.path.join(pool, place))
        )

    def cgroups(self):
        """All groups, from the hierarchy of pids (v1) or the only one (v2)."""
        for base in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
            top = os.path.join(base, self.instance)
            if os.path.isdir(top):
                return [path for path, _, _ in os.walk(top)]
        return []

    def inhabited(self):
        """Groups in which something lives."""
        found = []
        for path in self.cgroups():
            try:
                with open(os.path.join(path, "cgroup.procs")) as file:
                    found += [path] if file.read() else []
            except OSError:
                pass  # removed meanwhile
        return found


def processes(marker):
    """Pids of the programs that have that text as one of their arguments."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    if marker.encode() in file.read().split(b"\0"):
                        found.append(int(entry))
            except OSError:
                pass  # it ended meanwhile
    return found


def check_decisions(records):
    """Each request has one decision, and no end without it before. Gives {request id: record}."""
    decisions, ends = {}, set()
    for record in records:
        own = record.get("cordium", {})
        request = own.get("requestID")
        if not request:
            continue
        if own["event"] == "DECISION":
            assert request not in decisions, f"two decisions of {request}"
            decisions[request] = record
        else:
            assert own["event"] == "END" and request in decisions, own
            assert request not in ends, f"two ends of {request}"
            ends.add(request)
    return decisions


def tell(*words):
    print("     ", *words, file=sys.stdout, flush=True)


class OtherSettings:
    """The gateway with more settings (tests/demo/platform.sh puts them in); at the end without."""

    def __init__(self, platform, lines):
        self.daemons = Daemons(platform)
        self.path = os.path.join(platform.folder, "gateway.more.yaml")
        self.lines = lines

    def __enter__(self):
        self.daemons.stop("gateway")
        with open(self.path, "x") as file:
            file.write(self.lines)
        self.daemons.up()

    def __exit__(self, *_):
        os.unlink(self.path)
        if self.daemons.alive("gateway"):
            self.daemons.stop("gateway")
        self.daemons.up()
