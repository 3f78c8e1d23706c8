"""Where attacks are tried: workspaces as their user and as root, builds, and outside for control."""

import glob
import hashlib
import io
import os
import re
import shlex
import subprocess
import sys
import tarfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))

import images  # noqa: E402
from harness import Platform, eventually  # noqa: E402
from octelium.api.main.cordium import v1 as p  # noqa: E402

# A namespace of each kind, so that what works outside changes nothing of the host.
UNSHARE = ["unshare", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--mount-proc"]
KERNEL_HELPERS = ["kernel/core_pattern", "kernel/modprobe", "kernel/hotplug", "kernel/poweroff_cmd", "vm/panic_on_oom",
                  "user/max_user_namespaces", "net/ipv4/ip_forward", "kernel/unprivileged_bpf_disabled"]


class Outcome:
    """What became of one attempt: "succeeded", "refused EPERM", "killed SIGSYS", "hangs"."""

    def __init__(self, line):
        self.name, _, rest = line.partition(": ")
        self.text, _, self.note = rest.partition(" | ")

    @property
    def word(self):
        return self.text.rpartition(" ")[2]

    def __str__(self):
        return self.text + (f" ({self.note.strip()})" if self.note else "")


def parse(text):
    pattern = re.compile(r"^[a-z0-9-]+: (succeeded|refused [A-Z0-9]+|killed \S+|hangs|not tried: \S+)( \||$)")
    return [Outcome(line) for line in text.splitlines() if pattern.match(line)]


def outcomes_of(words, text):
    """One Outcome for each of the words, in their order; whatever else is in the text is passed over."""
    found = parse(text)
    assert [o.name for o in found] == [word.partition("=")[0] for word in words], f"not each has an outcome: {text}"
    return found


def specification(read_only=False, network=False, capabilities=(), dockerfile=None, **runtime):
    action = p.WorkspaceSpecRuntimeNetworkEgressDefaultAction
    egress = p.WorkspaceSpecRuntimeNetworkEgress(default_action=action.ALLOW_PUBLIC if network else action.DENY)
    spec = p.WorkspaceSpec(runtime=p.WorkspaceSpecRuntime(
        network=p.WorkspaceSpecRuntimeNetwork(egress=egress),
        filesystem=p.WorkspaceSpecRuntimeFilesystem(read_only=read_only),
        capabilities=p.WorkspaceSpecRuntimeCapabilities(add=list(capabilities)), **runtime))
    if dockerfile:
        spec.image = p.WorkspaceSpecImage(dockerfile=p.WorkspaceSpecImageDockerfile(inline=dockerfile))
    return spec


def uid_of(pid):
    with open(f"/proc/{pid}/status") as lines:
        return int(next(line for line in lines if line.startswith("Uid:")).split()[1])


def group_of(pid):
    with open(f"/proc/{pid}/cgroup") as lines:
        return lines.read()


class World:
    def __init__(self, folder):
        self.platform = Platform(folder)
        self.folder = self.platform.folder
        self.scratch = os.path.join(self.folder, "attack")
        os.makedirs(self.scratch, exist_ok=True)
        self.programs = self.platform.bin
        self.attempts = os.path.join(self.programs, "tests", "attack", "attempts")
        self.registry = images.Registry(int(os.environ["REGISTRY_PORT"]), os.path.join(ROOT, "build", "base"), self.scratch)
        with open(self.attempts, "rb") as file:
            self.program = file.read()
        self.image = self.registry.push("attacker", self.attacker_layer())
        self.client = self.platform.sdk()
        self.access = self.client.access_token()
        self.gateway_uid = os.stat(os.path.join(self.folder, "gateway")).st_uid
        self.builds = 0
        self.capable = None

    def attacker_layer(self):
        """The attempts; with set-user-id, and with every capability, for root and for all."""
        capable = {"SCHILY.xattr.security.capability": images.ALL_CAPABILITIES.decode("utf-8", "surrogateescape")}
        return [
            images.member("attempts", data=self.program),
            images.member("suid-attempts", data=self.program, mode=0o6755),
            images.member("capable-attempts", data=self.program, headers=capable),
        ]

    def busybox(self):
        """The one program of the base image."""
        with tarfile.open(fileobj=io.BytesIO(self.registry.base_layer)) as layer:
            name = next(n for n in layer.getnames() if n.endswith("bin/busybox"))
            return layer.extractfile(name).read()

    # --- inside ---

    def workspace(self, image=None, read_only=False, network=False, capabilities=(), ephemeral=True, timeout=60,
                  resources=None):
        return self.client.workspaces.run(
            image=image or self.image, spec=specification(read_only, network, capabilities), ephemeral=ephemeral,
            timeout=timeout, poll_interval=0.05, **({"resources": resources} if resources else {}))

    def capable_template(self):
        """A Template of the image in which root has every capability that there is to get; made once."""
        if not self.capable:
            spec = specification(capabilities=["ALL"], dockerfile=f"FROM {self.image}\n")
            made = self.client.templates.create(
                f"capable-{time.time_ns() % 10**9}", spec=p.TemplateSpec(image=spec.image, runtime=spec.runtime))
            self.capable = made.metadata.name
            self.platform.ok("build", self.capable, timeout=180)
        return self.capable

    @staticmethod
    def attempt(workspace, *words, root=False, program="/attempts", timeout=60):
        """Tries them in one go; gives one Outcome each."""
        done = workspace.exec("exec " + program + " " + shlex.join(words), root=root, timeout=timeout)
        return outcomes_of(words, done.stdout + done.stderr)

    def build_log(self, dockerfile, timeout=180):
        """What a build of that text says, whether it succeeds or not."""
        self.builds += 1
        name = f"attack-{self.builds}-{time.time_ns() % 10**9}"
        self.client.templates.create(name, spec=p.TemplateSpec(image=specification(dockerfile=dockerfile).image))
        done = self.platform.cli("build", name, timeout=timeout)
        return done.stdout + done.stderr

    def attempt_in_step(self, *words):
        """As the RUN step of a Dockerfile."""
        return outcomes_of(words, self.build_log(f"FROM {self.image}\nRUN /attempts {shlex.join(words)}\n"))

    def builder(self, script, timeout=60):
        """A shell in the sandbox of a build, around the steps: for who gets out of a step."""
        words = ["setpriv", f"--reuid={self.gateway_uid}", f"--regid={self.gateway_uid}", "--clear-groups",
                 os.path.join(self.programs, "executor_probe"), os.path.join(self.folder, "run", "executor.sock"),
                 "build", "--", "/bin/sh", "-c", "cat > /build/attempts && chmod 755 /build/attempts && " + script]
        done = subprocess.run(words, input=self.program, capture_output=True, timeout=timeout)
        return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")

    def attempt_in_builder(self, *words):
        return outcomes_of(words, self.builder("exec /build/attempts " + shlex.join(words)))

    # --- outside ---

    def outside(self, *words, before="", timeout=60):
        """The control: as root, in namespaces that end with it; gives one Outcome each."""
        done = self.outside_shell(f"{before} {self.attempts} {shlex.join(words)}", timeout)
        return outcomes_of(words, done.stdout + done.stderr)

    @staticmethod
    def outside_shell(script, timeout=60):
        words = ["sh", "-c", "mount -t tmpfs -o size=1g none /tmp; " + script]
        return subprocess.run([*UNSHARE, *words], capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)

    # --- the host ---

    def host_pid(self, name):
        with open(os.path.join(self.folder, name + ".pid")) as file:
            return int(file.read())

    def launchers(self):
        """The executor's helpers and all that they have started, with their command lines."""
        found = {}
        executor = self.host_pid("executor")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    parent = int(stat.read().rpartition(")")[2].split()[1])
                with open(f"/proc/{pid}/cmdline", "rb") as line:
                    if parent == executor:
                        found[int(pid)] = line.read()
            except (OSError, ValueError):
                pass
        return found

    def programs_hash(self):
        """Of each program and tool that a sandbox may get to see."""
        found = {}
        for base, _, names in os.walk(self.programs):
            for name in names:
                path = os.path.join(base, name)
                if os.access(path, os.X_OK) and os.path.isfile(path) and not os.path.islink(path):
                    with open(path, "rb") as file:
                        found[path] = hashlib.sha256(file.read()).hexdigest()
        return found

    @staticmethod
    def host_settings():
        found = {}
        for name in KERNEL_HELPERS:
            try:
                with open("/proc/sys/" + name) as file:
                    found[name] = file.read()
            except OSError:
                found[name] = None
        return found

    @staticmethod
    def host_mounts():
        """Where the host has mounts, but for those below the folders that tests work in."""
        with open("/proc/self/mountinfo") as lines:
            return sorted(point for point in (line.split()[4] for line in lines) if "/build/" not in point)

    # --- what a sandbox leaves ---

    def processes_of(self, base):
        """Those of our executor's groups whose user is of the range of 65,536 that begins with `base`;
        another executor of this machine may use the same numbers."""
        with open(os.path.join(self.folder, "executor.conf")) as lines:
            instance = next(line.split("=")[1].strip() for line in lines if line.startswith("instance"))
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if uid_of(pid) in range(base, base + 65536) and f"/{instance}/" in group_of(pid):
                    found.append(int(pid))
            except (OSError, StopIteration):
                pass
        return found

    def in_pool(self, *words):
        """The output of a program in the executor's view of the file systems."""
        return subprocess.run(["nsenter", "-m", "-t", str(self.host_pid("executor")), *words], capture_output=True, text=True).stdout

    def footprint(self, workspace):
        """All that a running workspace has on the host."""
        base = int(workspace.exec("cat /proc/self/uid_map").stdout.split()[1])
        pids = self.processes_of(base)
        with open(f"/proc/{min(pids)}/cgroup") as lines:
            groups = sorted({line.strip().split(":", 2)[2] for line in lines} - {"/"})
        with open(f"/proc/{min(pids)}/mountinfo") as lines:
            storages = sorted({m for line in lines for m in re.findall(r"/(?:ephemeral|storages)/[0-9a-f]{32}", line)})
        assert pids and groups and storages, (pids, groups, storages)
        return {"base": base, "groups": groups, "storages": storages, "name": workspace.name}

    def remains(self, prints):
        """What is still there of it, in words."""
        found = [f"process {pid}" for pid in self.processes_of(prints["base"])]
        listed = self.in_pool("find", os.path.join(self.folder, "executor", "pool"), "-mindepth", "2", "-maxdepth", "2")
        found += [storage for storage in prints["storages"] if storage in listed]
        found += [line for line in listed.splitlines() if "/trash/" in line]
        for group in prints["groups"]:
            for path in glob.glob("/sys/fs/cgroup/*" + group + "/**/cgroup.procs", recursive=True):
                with open(path) as file:
                    found += [f"{path}: {pid}" for pid in file.read().split()]
        return found

    def wait_until_gone(self, prints, seconds=25):
        gone = eventually(lambda: not self.remains(prints), seconds, 0.1)
        assert gone, f"after {seconds} s there still is: {', '.join(self.remains(prints)[:8])}"

    def close(self):
        self.client.close()

