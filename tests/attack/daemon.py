"""What a caller, or a gateway that was taken over, may send; and starts on what an attacker has left."""

import copy
import json
import os
import random
import re
import subprocess
import tempfile
import time

import images
from boundaries import works
from cordium import CordiumError
from image_tricks import LOOK, MOUNT_POINTS, TRICKS, host_state, links_followed_outside
from images import folder, member
from octelium.api.main.meta import v1 as m
from report import attack
from world import eventually, p, specification

DIRECTORIES = [*[f"/proc/self/fd/{n}" for n in range(0, 16)], "/proc/1/root", "/proc/1/cwd", "/proc/1/fd/3", "/proc/self/cwd/../../..",
               "/proc/thread-self/fd/7", "/workspace/way"]
ROUNDS_S = 20


# --- row 2 ---


def reachable(text):
    return text.startswith("/") and "unreachable" not in text


@attack(2, "working directories that are descriptors, as a caller asks and as an image says")
def working_directories(world):
    box = world.workspace()
    told = []
    try:
        for root in (False, True):
            box.exec("ln -sfn /proc/self/fd/7 /workspace/way", root=root)
            entered = 0
            for directory in DIRECTORIES:
                done = box.exec("pwd -P; readlink /proc/self/cwd", cwd=directory, root=root)
                if done.exit_code == 0 and done.stdout:
                    entered += 1
                    assert all(reachable(line) for line in done.stdout.splitlines()), f"{directory}: {done.stdout}"
                else:
                    assert directory in done.stderr, f"{directory}: the refusal does not name it: {done.stderr}"
            told.append(f"{'root' if root else 'user'}: {len(DIRECTORIES) - entered} of {len(DIRECTORIES)} refused, the others inside")
    finally:
        box.delete()
    for number in (3, 7, 9):
        reference = world.registry.push("workdir", [member("attempts", data=world.program)],
                                        config={"WorkingDir": f"/proc/self/fd/{number}"})
        try:
            box = world.workspace(reference)
        except CordiumError as error:
            told.append(f"image with fd {number}: {str(error)[:60]}")
            continue
        done = box.exec("pwd -P")
        box.delete()
        assert done.exit_code != 0 or reachable(done.stdout), done
        told.append(f"image with fd {number}: {'refused' if done.exit_code else 'inside'}")
    works(world.outside("leave-by-kept-descriptor")[0])
    return told, "such a descriptor leads out of a chroot outside"


# --- rows 5, 8, 10: starts on what an attacker has left ---

# Points of mounts, and what is above them; each also as somebody's link to it.
SWAPPED = ("/var", "/etc", "/opt", "/home", "/var/tmp", "/tmp", "/workspace", "/dev", "/proc", "/sys", "/run", "/etc/hosts", "/var/run")
SWAP = """ln -s /proc/1/root/tmp {0}.other; /attempts flip={0},1; mv -T {0} {0}.moved || rm -rf {0}; ln -sT /proc/1/root/tmp {0}
(setsid sh -c 'while :; do /attempts flip={0},9; mv -T {0} {0}.x; mv -T {0}.x {0}; done' >/dev/null 2>&1 </dev/null &)"""


def left_behind(world, number):
    """One round: root of a workspace swaps a mount point or its parent with a link, goes on until it is
    stopped, and the workspace is started again. Gives "refused", or "inert", and how swapping went."""
    point = SWAPPED[number % len(SWAPPED)]
    box = world.workspace(ephemeral=False, capabilities=["ALL"])
    try:
        swapped = box.exec(SWAP.format(point), root=True).stdout.splitlines()[0]
        box.stop()
        box.wait_until_stopped(timeout=20, poll_interval=0.02)
        try:
            box.start()
            box.wait_until_running(timeout=20, poll_interval=0.02)
        except CordiumError as error:
            assert point[1:] in str(error), f"the refusal does not name {point}: {error}"
            return "refused", swapped
        found = box.exec(LOOK, root=True).stdout
        for line in found.splitlines():
            at = line[6:] if line.startswith("mount ") else "/"
            assert MOUNT_POINTS.fullmatch(at) or at == "/home/octelium", f"{point}: something is mounted at {at}"
        assert found.startswith("null 1:3 proc"), f"{point}: {found}"
        return "inert", swapped
    finally:
        box.refresh()
        if not box.is_stopped:
            box.stop()
            box.wait_until_stopped(timeout=20, poll_interval=0.02)
        box.delete()


@attack("5/8/10", "mount points and their parents swapped with links, then a start on them")
def swapped_points(world):
    before, settings = host_state(), world.host_settings()
    end = time.monotonic() + ROUNDS_S
    found = []
    while time.monotonic() < end or len(found) < len(SWAPPED):
        found.append(left_behind(world, len(found)))
    assert host_state() == before and world.host_settings() == settings, "the host was changed"
    states = [state for state, _ in found]
    refused_swaps = sum("refused" in swapped for _, swapped in found)
    return ([f"root: {len(found)} rounds, {states.count('refused')} starts refused by name, {states.count('inert')} inert",
             f"{refused_swaps} exchanges refused by the file system", "settings of the host's kernel unchanged"],
            links_followed_outside(world))


@attack("5/8", "one storage for two sandboxes at a time")
def shared_storage(world):
    box = world.workspace(ephemeral=False)
    try:
        before = world.footprint(box)
        try:
            box.start()
            told = "a second start is answered"
        except CordiumError as error:
            told = f"a second start is refused ({error.code})"
        time.sleep(0.5)
        after = world.footprint(box)
        holders = [pid for pid in os.listdir("/proc") if pid.isdigit() and any(s in mounts_of(pid) for s in before["storages"])]
        bases = {base_of(pid) for pid in holders}
        assert before == after and bases == {before["base"]}, f"{before} {after} {bases}"
    finally:
        box.stop()
        box.wait_until_stopped(timeout=20, poll_interval=0.02)
        box.delete()
    return [f"{told}: one sandbox has the storage"], f"{len(holders)} processes of the host see its mounts"


def mounts_of(pid):
    try:
        with open(f"/proc/{pid}/mountinfo") as file:
            return file.read()
    except OSError:
        return ""


def base_of(pid):
    with open(f"/proc/{pid}/uid_map") as file:
        return int(file.read().split()[1])


# --- row 26: volumes ---

CLOSED = ("/proc", "/proc/self", "/proc/sys/kernel", "/dev", "/dev/null", "/sys", "/", "/workspace/../proc", "/./proc", "//proc", "proc", "")


@attack(26, "volumes at /proc and other closed places")
def volumes_at_closed_places(world):
    told = []
    for path in CLOSED:
        spec = specification()
        spec.runtime.volume_mounts = [p.WorkspaceSpecRuntimeVolumeMount(volume_ref=m.ObjectReference(name="data"), mount_path=path)]
        try:
            made = world.client.workspaces.create(spec=spec, image=world.image, ephemeral=True)
        except CordiumError as error:
            assert error.code == "INVALID_ARGUMENT" and "mountPath" in str(error), f"'{path}': {error.code}: {error}"
            told.append(f"'{path}' refused")
            continue
        made.delete()
        raise AssertionError(f"a volume at '{path}' is taken")
    return told, "the message names the path, not the volume, which is not there"


# That of executor_probe's sandboxes.
HOME = "home/sandbox"
# Mount points that an image may have, for a root that no image program has prepared.
SKELETON = ["dev", "proc", "sys", "run", "tmp", "var", "var/tmp", "opt", "opt/cordium", "etc", "home", HOME, "workspace"]


def bare_root(world, layer):
    """A root of busybox with all mount points, but those that the members of the layer are in the way of."""
    blocked = {info.name for info, _ in layer if not info.isdir()}

    def is_free(name):
        return not any(is_above(block, name) for block in blocked)

    entries = [entry for entry in layer if ".wh." not in entry[0].name]
    entries += [folder(name) for name in SKELETON if is_free(name)]
    entries += [member("etc/" + name, mode=0o644) for name in ("hosts", "hostname", "resolv.conf") if is_free("etc/" + name)]
    entries += [folder("bin"), member("bin/sh", data=world.busybox()), member("bin/busybox", data=world.busybox()),
                member("attempts", data=world.program)]
    return images.tar(entries)


def is_above(name, path):
    return path == name or path.startswith(name + "/")


def executor_probe(world, *words, timeout=60):
    command = ["setpriv", f"--reuid={world.gateway_uid}", f"--regid={world.gateway_uid}", "--clear-groups",
               os.path.join(world.programs, "executor_probe"), os.path.join(world.folder, "run", "executor.sock"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


@attack("6/7/9/10/26", "the same images as a gateway that was taken over hands them to the executor, unprepared")
def unprepared_images(world):
    before, settings = host_state(), world.host_settings()
    told = []
    for row, name, layer in TRICKS:
        if row not in (6, 7, 9, 10, 26):
            continue
        layer = copy.deepcopy(layer)
        for info, _ in layer:
            info.name = info.name.replace("home/octelium", HOME)
        with tempfile.NamedTemporaryFile(dir=world.scratch, suffix=".tar") as file:
            file.write(bare_root(world, layer))
            file.flush()
            os.chmod(file.name, 0o644)
            made = executor_probe(world, "import", file.name)
        image = made.stdout.strip()
        if "Cannot mknod: Operation not permitted" in made.stderr:
            told.append(f"{name} (no node can be made)")
            continue
        assert len(image) == 64, f"{name}: {made.stderr}"
        done = executor_probe(world, "run", image, "-w", "-r", "--", "/bin/sh", "-c", LOOK + "; exec /attempts find-devices "
                              "find-descriptors leave-by-descriptor open-write=/proc/sys/kernel/core_pattern make-device=b,7,0")
        text = done.stdout
        if "null 1:3 proc" not in text:
            at = re.search(r"'(/[^']+)' of the image", done.stderr) or re.search(r" mount (/[a-z]+): ", done.stderr)
            assert at and any(is_above("/" + info.name, at.group(1)) for info, _ in layer), f"{name}: {done.stderr}{text}"
            told.append(f"{name} (refused: {at.group(1)})")
            continue
        assert "succeeded" not in text and text.count("refused") == 5, f"{name}: {text}"
        told.append(f"{name} (inert)")
    assert host_state() == before and world.host_settings() == settings, "the host was changed"
    assert any("refused" in text for text in told) and any("inert" in text for text in told), told
    return told, links_followed_outside(world)


# --- row 27 ---

LONG = 70000


def long_requests(world):
    """Requests with one field that is too long each, or a number that is too large."""
    name = "x" * LONG
    spec = {"spec": {"image": {"registry": {"url": "docker.io/library/" + name}}}}
    run = {"image": world.image, "argv": ["true"]}
    service = "/octelium.api.main.cordium.v1.MainService/"
    yield "run: image", "/v1/run", {**run, "image": name}
    yield "run: template", "/v1/run", {**run, "template": name}
    yield "run: working directory", "/v1/run", {**run, "workingDir": "/" + name}
    yield "run: path of a file", "/v1/run", {**run, "files": [{"path": name, "text": "x"}]}
    yield "run: pattern", "/v1/run", {**run, "collect": ["*" * LONG]}
    yield "run: name of a variable", "/v1/run", {**run, "env": {name: "1"}}
    yield "run: key", "/v1/run", {**run, "idempotencyKey": name}
    yield "run: language", "/v1/run", {**run, "code": "x", "language": name}
    yield "run: argument with NUL", "/v1/run", {**run, "argv": ["a\0b"]}
    yield "run: 2^32 pids", "/v1/run", {**run, "limits": {"pids": 2**32}}
    yield "run: -1 megabytes", "/v1/run", {**run, "limits": {"memoryMegabytes": -1}}
    yield "workspace: image", service + "CreateWorkspace", spec
    yield "workspace: host", service + "GetWorkspace", {"name": name}
    yield "workspace: depth", service + "CreateWorkspace", nest(400)


def nest(depth):
    value = {}
    for _ in range(depth):
        value = {"spec": value}
    return value


@attack(27, "fields of 70,000 bytes and numbers out of range at the gateway")
def long_fields(world):
    daemons = [world.host_pid("gateway"), world.host_pid("executor")]
    told = 0
    for name, path, request in long_requests(world):
        with tempfile.NamedTemporaryFile("w", dir=world.scratch, suffix=".json") as file:
            json.dump(request, file)
            file.flush()
            done = subprocess.run(
                ["curl", "-sS", "--cacert", world.platform.ca, "-w", "\n%{http_code}", "-H", "content-type: application/json",
                 "-H", "x-octelium-auth: " + world.access, "--data-binary", "@" + file.name,
                 f"https://localhost:{world.platform.port}{path}"], capture_output=True, text=True, timeout=60)
        body, _, code = done.stdout.rpartition("\n")
        assert code in ("400", "404", "409", "413", "429"), f"{name}: HTTP {code}: {body[:200]} {done.stderr}"
        assert len(body) < 8192 and '"message"' in body, f"{name}: {len(body)} bytes: {body[:200]}"
        told += 1
    assert all(os.path.exists(f"/proc/{pid}") for pid in daemons), "a daemon has ended"
    good = run_true(world)
    return [f"gateway: {told} requests refused with a reason", good], "the same request without the long field runs"


def run_true(world):
    code, text = world.platform.curl("/v1/run", json.dumps({"image": world.image, "argv": ["/bin/true"]}), world.access)
    assert code == 200 and json.loads(text)["outcome"] == "exited", text
    return "both daemons serve afterwards"


# Sends what it is given as arguments, each a datagram, on a connection of its own; as the gateway's user.
SENDER = """
import array, os, random, socket, sys
path, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random.seed(seed)
folder = os.open("/", os.O_RDONLY)
ended = 0
for i in range(count):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(5)
    s.connect(path)
    size = random.choice([0, 1, 4, 15, 16, 64, 4096, 65535, 65536, 70000, 150000])
    head = random.choice([b"", bytes(16), b"\\xff" * 16, random.randbytes(16), (random.randrange(40)).to_bytes(4, "little") + bytes(12)])
    body = (head + random.choice([bytes(size), b"\\xff" * size, random.randbytes(size)]))[: max(size, 1)]
    fds = [folder] * random.choice([0, 0, 1, 9, 60])
    control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    try:
        for _ in range(3):
            s.sendmsg([body], control)
        while s.recv(70000):
            pass
        ended += 1
    except (BrokenPipeError, ConnectionResetError):
        ended += 1
    except OSError as error:
        if error.errno == 90:
            ended += 1
        elif isinstance(error, TimeoutError):
            print("no answer and no end to", len(body), "bytes of", head[:4].hex())
    s.close()
print("ended", ended)
"""


@attack(27, "random and too long messages at the executor, and other users there")
def bad_messages(world):
    path = os.path.join(world.folder, "run", "executor.sock")
    executor = world.host_pid("executor")
    before = len(os.listdir(f"/proc/{executor}/fd"))
    count = 300
    done = subprocess.run(
        ["setpriv", f"--reuid={world.gateway_uid}", f"--regid={world.gateway_uid}", "--clear-groups", "/usr/bin/python3", "-c", SENDER,
         path, str(random.randrange(10**6)), str(count)], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == f"ended {count}", done.stdout + done.stderr
    assert os.path.exists(f"/proc/{executor}"), "the executor has ended"
    # What it holds ready for starts comes and goes.
    settled = eventually(lambda: len(os.listdir(f"/proc/{executor}/fd")) <= before + 8, 10)
    assert settled, f"the executor has {len(os.listdir(f'/proc/{executor}/fd'))} descriptors, before it had {before}"
    other = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                            os.path.join(world.programs, "executor_probe"), path, "ping", "1"], capture_output=True, text=True)
    assert other.returncode != 0, "another user is served"
    probe = executor_probe(world, "ping", "5")
    assert "slowest" in probe.stdout, probe.stderr
    return [f"executor: {count} connections ended", "another user is refused", run_true(world)], "the gateway's user is served"
