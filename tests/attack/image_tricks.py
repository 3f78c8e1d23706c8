"""Images that are traps: links for mount points, names that lead out, nodes and pipes where files are read."""

import hashlib
import json
import os
import re
import subprocess
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor

import images
from cordium import CordiumError
from images import device, fifo, folder, gone, hard_link, link, member
from report import attack
from world import World

CANARY = "cordium-attack-was-here"
HOST_FILES = ["/etc/passwd", "/etc/shadow", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/group"]
HOST_FOLDERS = ["/", "/etc", "/dev", "/usr", "/usr/bin", "/root", "/var", "/opt"]
# Where a workspace has mounts of its own, beside its home; any other is one that went astray.
MOUNT_POINTS = re.compile(r"/|/dev(/pts|/shm)?|/etc/(hostname|hosts|resolv\.conf)|/opt/cordium|/proc(/[a-z.]+)?|/run|/var/run|"
                          r"/tmp|/var/tmp|/workspace")

# Row, name, members of the layer above busybox. The name of each canary is one to look for on the host.
TRICKS = [
    (9, "/dev is a link up and out", [gone("dev"), link("dev", "../../tmp")]),
    (9, "/dev is a link to /proc/1/root/tmp", [link("dev", "/proc/1/root/tmp")]),
    (9, "/dev is a file", [member("dev", data=b"x")]),
    (6, "/dev/null is a link to core_pattern", [folder("dev"), link("dev/null", "/proc/sys/kernel/core_pattern")]),
    (6, "each node of /dev is a link", [folder("dev"), *[link("dev/" + n, "/proc/sysrq-trigger") for n in
                                                         ("null", "zero", "full", "random", "urandom", "tty", "ptmx")]]),
    (7, "/dev/console is a link to sysrq-trigger", [folder("dev"), link("dev/console", "/proc/sysrq-trigger")]),
    (7, "/dev/pts is a link to /proc", [folder("dev"), link("dev/pts", "/proc")]),
    (7, "/dev/pts/0 is a link to core_pattern", [folder("dev"), folder("dev/pts"), link("dev/pts/0", "/proc/sys/kernel/core_pattern")]),
    (26, "/proc is a link to /tmp", [link("proc", "/tmp")]),
    (26, "/proc is a link to ../../proc", [link("proc", "../../proc")]),
    (26, "/proc is full of files and links", [folder("proc"), folder("proc/1"), link("proc/self", "../etc"),
                                              link("proc/1/oom_score_adj", "/proc/sys/kernel/core_pattern"),
                                              link("proc/kallsyms", "../../../etc/shadow"), link("proc/sys", "/etc")]),
    (26, "/sys is a link to /", [link("sys", "/")]),
    (10, "/etc is a link to /oldroot/etc", [gone("etc"), link("etc", "/oldroot/etc")]),
    (10, "/etc is a link up and out", [gone("etc"), link("etc", "../../../../etc")]),
    (10, "/etc is a link to /tmp", [gone("etc"), link("etc", "/tmp")]),
    (10, "/workspace is a link to /", [link("workspace", "/")]),
    (10, "/workspace is a link up and out", [link("workspace", "../../../../root")]),
    (10, "/workspace is a link to /proc/1/root", [link("workspace", "/proc/1/root")]),
    (10, "/tmp is a link to /etc", [gone("tmp"), link("tmp", "/etc")]),
    (10, "/var is a link to /etc", [link("var", "/etc")]),
    (10, "/var/tmp is a link up and out", [folder("var"), link("var/tmp", "../../../../etc")]),
    (10, "/var/run is a link to /etc", [folder("var"), link("var/run", "/etc")]),
    (10, "/run is a link to /etc", [link("run", "/etc")]),
    (10, "/opt/cordium is a link to /bin", [folder("opt"), link("opt/cordium", "/bin")]),
    (10, "/opt is a link to /", [link("opt", "/")]),
    (10, "/etc/resolv.conf is a link out", [link("etc/resolv.conf", "../../../../etc/shadow")]),
    (10, "/etc/hosts and hostname are links out", [link("etc/hosts", "/proc/1/root/etc/hosts"), link("etc/hostname", "../../etc/hostname")]),
    (10, "/home is a link to /", [link("home", "/")]),
    (10, "the home is a link to /etc", [folder("home"), link("home/octelium", "/etc")]),
    (10, "the home of passwd leads out", [member("etc/passwd", data=b"octelium:x:1000:1000::/home/../../../etc:/bin/sh\n", mode=0o644)]),
    (10, "the home of passwd is /proc/1/root", [member("etc/passwd", data=b"octelium:x:1000:1000::/proc/1/root:/bin/sh\n", mode=0o644)]),
    (5, "a name with .. in it", [member("../../../../../etc/" + CANARY, data=b"x")]),
    (5, "an absolute name", [member("/etc/" + CANARY, data=b"x")]),
    (5, "a file through a link", [link("way", "/etc"), member("way/" + CANARY, data=b"x")]),
    (5, "a file through a link up and out", [link("way", "../../../../../../etc"), member("way/" + CANARY, data=b"x")]),
    (5, "a hard link to a file outside", [hard_link("shadow", "../../../../../../etc/shadow")]),
    (5, "a hard link through a link", [link("way", "/etc"), hard_link("passwd-of-host", "way/passwd")]),
    (5, "whiteouts of .. and .", [folder("a"), gone("a/.."), gone("."), member(".wh..", mode=0o600)]),
    (5, "a whiteout through a link", [link("way", "/etc"), gone("way/hosts")]),
    (28, "/etc/passwd is a named pipe", [gone("etc/passwd"), fifo("etc/passwd")]),
    (28, "/etc/group is a device", [device("etc/group", 1, 5)]),
    (28, "/etc/passwd is a link to /dev/zero", [link("etc/passwd", "/dev/zero")]),
    (28, "/etc/resolv.conf is a named pipe", [fifo("etc/resolv.conf")]),
    (28, "/etc/hosts is a folder", [folder("etc/hosts"), member("etc/hosts/x", data=b"x")]),
    (28, "/bin/bash is a named pipe", [fifo("bin/bash")]),
    (9, "device nodes of disks and memory", [device("disk", 7, 0, tarfile.BLKTYPE), device("memory", 1, 1), device("bin/kmsg", 1, 11)]),
    (36, "1,500 folders in each other", [folder("/".join(["d"] * n)) for n in range(1, 1500)]),
]


def host_state():
    found = {}
    for path in HOST_FILES:
        try:
            with open(path, "rb") as file:
                found[path] = (hashlib.sha256(file.read()).hexdigest(), os.lstat(path).st_mode, os.lstat(path).st_uid,
                               os.lstat(path).st_nlink)
        except OSError:
            found[path] = None
    for path in HOST_FOLDERS:
        found[path] = sorted(n for n in os.listdir(path) if not n.startswith(("loop", "tty")))
    found["mounts"] = World.host_mounts()
    return found


# What the root of a workspace finds, told by programs that are our own.
LOOK = """echo null $(/bin/busybox stat -c %t:%T /dev/null) $(/bin/busybox stat -f -c %T /proc)
/bin/busybox wc -c /proc/kallsyms /proc/keys
/bin/busybox cut -d ' ' -f 5 /proc/self/mountinfo | /bin/busybox sed 's/^/mount /'
/bin/busybox id -u"""


def start(world, reference):
    """Gives (workspace, "") or (None, why not); never neither."""
    began = time.monotonic()
    try:
        return world.workspace(reference, timeout=60), ""
    except CordiumError as error:
        assert time.monotonic() - began < 55, f"neither starts nor is refused: {error}"
        return None, str(error)


def check_started(box, name):
    home = box.exec("echo $HOME").stdout.strip()
    who = box.exec("/bin/busybox id -u").stdout.strip()
    text = box.exec(LOOK, root=True).stdout
    lines = text.splitlines()
    assert who not in ("", "0"), f"{name}: runs as uid '{who}'"
    assert lines[0] == "null 1:3 proc", f"{name}: {lines[0]}"
    assert re.search(r"^\s*0 /proc/kallsyms", text, re.M), f"{name}: not masked: {text}"
    for line in lines:
        if line.startswith("mount ") and not MOUNT_POINTS.fullmatch(line[6:]) and line[6:] != home:
            raise AssertionError(f"{name}: something is mounted at {line[6:]}")
    for outcome in box_attempts(box):
        assert outcome.text != "succeeded", f"{name}: {outcome.name} SUCCEEDED: {outcome}"


def box_attempts(box):
    return World.attempt(box, "find-devices", "find-descriptors", "leave-by-descriptor", "make-device=b,7,0",
                         "open-read=/disk", "open-read=/memory", "open-write=/proc/sys/kernel/core_pattern", root=True)


def try_image(world, row, name, layer):
    """Gives "refused: ..." or "inert"."""
    kept = member("attempts", data=world.program)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    box, why = start(world, world.registry.push(slug, [kept, *layer]))
    if box is None:
        is_clear = len(why) > 10 and "nvalid argument" not in why and ("/" in why or "deeper than" in why) and "internal" not in why.lower()
        assert is_clear, f"{name}: the refusal is not clear: {why}"
        return "refused: " + why.splitlines()[0][:110]
    try:
        check_started(box, name)
    finally:
        box.delete()
    return "inert"


def try_images(world, rows):
    """A few at a time; gives a text for each, and leaves the host as it was."""
    tricks = [trick for trick in TRICKS if trick[0] in rows]
    before, settings = host_state(), world.host_settings()
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda trick: (trick, capture(world, trick)), tricks))
    changed = {path: (was, is_now) for path, was in before.items() if (is_now := host_state()[path]) != was}
    assert not changed, f"the host was changed: {changed}"
    assert world.host_settings() == settings, "a setting of the host's kernel was changed"
    stray = subprocess.run(["find", "/etc", "/usr", "/root", "/var", "/opt", world.folder, "-xdev", "-name", CANARY],
                           capture_output=True, text=True).stdout.split()
    assert not [path for path in stray if "/executor/" not in path], f"files on the host: {stray}"
    wrong = [result for _, result in found if isinstance(result, Exception)]
    assert not wrong, "\n     ".join(str(error) for error in wrong)
    return [f"{trick[1]} ({result})" for trick, result in found]


def capture(world, trick):
    try:
        return try_image(world, *trick)
    except Exception as error:  # told together
        return error if isinstance(error, AssertionError) else RuntimeError(f"{trick[1]}: {type(error).__name__}: {error}")


def links_followed_outside(world):
    """What the same archive does to who unpacks it trustingly."""
    place = os.path.join(world.scratch, "trusting")
    os.makedirs(os.path.join(place, "outside"), exist_ok=True)
    os.makedirs(os.path.join(place, "root"), exist_ok=True)
    os.symlink("../outside", os.path.join(place, "root", "way"))
    data = images.tar([member("way/" + CANARY, data=b"x")])
    subprocess.run(["tar", "-C", os.path.join(place, "root"), "-xf", "-"], input=data, check=True)
    followed = os.path.exists(os.path.join(place, "outside", CANARY))
    subprocess.run(["rm", "-rf", place], check=True)
    assert followed, "tar follows no link: the control shows nothing"
    return "tar writes through such a link outside"


@attack("6/7/9", "images whose /dev is a trap")
def traps_for_dev(world):
    return try_images(world, (6, 7, 9)), links_followed_outside(world)


@attack("10/26", "images whose mount points are links")
def traps_for_mount_points(world):
    return try_images(world, (10, 26)), links_followed_outside(world)


@attack("5/28/36", "images with names, links and nodes that lead out")
def traps_in_layers(world):
    return try_images(world, (5, 28, 36)), links_followed_outside(world)


# --- row 12 ---

IDS = ["0", "00", "4294967296", "18446744073709551616", "-1", "1e3", "", " 0", "0 ", "+0", "0x0", "\uff10", "1000.0"]
USERS = ["4294967296", "1e3", "-1", "", "root ", "\uff10", "0", "root", "root:root", "1000:0", " root", "0:0"]


def user_of(world, name, layer, config=None):
    """The uid that programs have, or why there are none."""
    reference = world.registry.push(name, [member("attempts", data=world.program), *layer], config=config)
    box, why = start(world, reference)
    if box is None:
        assert "uid" in why or "user" in why.lower() or "passwd" in why, f"{name}: the refusal is not clear: {why}"
        return "refused"
    try:
        asked = box.exec("id -u; id -G").stdout.split()
        root = box.exec("id -u", root=True).stdout.strip()
    finally:
        box.delete()
    assert root == "0", f"{name}: root was asked, and uid {root} came"
    assert asked and asked[0] != "0", f"{name}: uid 0 although root was not asked: {asked}"
    return "uid " + asked[0]


@attack(12, "numbers of users in /etc/passwd that may be read as 0")
def numbers_of_users(world):
    def one(numbered):
        number, text = numbered
        line = f"root:x:0:0::/root:/bin/sh\noctelium:x:{text}:1000::/home/octelium:/bin/sh\n".encode()
        return f"'{text}' {user_of(world, f'uid-{number}', [member('etc/passwd', data=line, mode=0o644)])}"

    with ThreadPoolExecutor(3) as pool:
        told = list(pool.map(one, enumerate(IDS)))
    outside = subprocess.run(["sh", "-c", "printf '%d' 1e3 2>/dev/null; printf ' %d' 0x0"], capture_output=True, text=True).stdout
    return told, f"a lenient reader makes {outside.split()} of 1e3 and 0x0"


@attack(12, "users of an image's config, and of what a caller asks")
def names_of_users(world):
    def one(numbered):
        number, text = numbered
        return f"'{text}' {user_of(world, f'user-{number}', [], {'User': text})}"

    with ThreadPoolExecutor(3) as pool:
        told = list(pool.map(one, enumerate(dict.fromkeys(USERS))))
    return told + [asked_for(world, value) for value in ASKED], "root is uid 0 where it is asked for"


ASKED = (None, False, 0, 1, "", "0", "root", "1e3", "true", [], {})


def asked_for(world, value):
    """What becomes of a caller's runAsRoot that is no plain true."""
    request = {"image": world.image, "argv": ["/bin/id", "-u"], "runAsRoot": value}
    code, text = world.platform.curl("/v1/run", json.dumps(request), world.access)
    if code == 200:
        uid = json.loads(text)["stdout"]["text"].strip()
        assert uid == "1000", f"runAsRoot {value!r} is uid {uid}"
        return f"runAsRoot {value!r} uid {uid}"
    assert code == 400 and "message" in text, f"runAsRoot {value!r}: HTTP {code}: {text[:200]}"
    return f"runAsRoot {value!r} refused"
