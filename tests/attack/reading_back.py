"""Where a trusted side reads, writes or deletes what a sandbox has made: files that come back from runs, copies
to the user's own machine, storages that are removed."""

import base64
import json
import os
import shutil
import stat
import subprocess
import time

import images
from cordium import CordiumError
from image_tricks import host_state, links_followed_outside
from images import device, fifo, folder, hard_link, link, member
from report import attack
from world import eventually

MINE = "mine"

# Plants whatever could be read in place of a file.
PLANT = r"""mkdir -p out/deep out/way && cd out && printf mine > file && printf mine > deep/file
ln -s /etc/passwd link; ln -s /proc/self/environ environ; ln -s ../../../../etc/shadow up; ln -s /proc/1/root/etc/passwd root
ln -s / slash; ln -s .. loop; ln -s /etc way/etc; ln -s /proc/self/fd descriptors; ln -s file good
ln /bin/busybox hard 2>/dev/null; ln /proc/self/environ hard-environ 2>/dev/null
mkfifo pipe; mknod zero c 1 5 2>/dev/null; mknod disk b 7 0 2>/dev/null
: > huge && busybox truncate -s 4T huge 2>/dev/null || dd if=/dev/null of=huge bs=1 seek=4398046511104 2>/dev/null
printf mine > closed && chmod 000 closed; printf mine > "$(printf 'new\nline')"; printf mine > "$(printf '\377\376')"
d=.; i=0; while [ $i -lt 90 ]; do d=$d/n; i=$((i+1)); done; mkdir -p $d && printf mine > $d/file
cd ..; mkdir many; i=0; while [ $i -lt 3000 ]; do echo > many/$i; i=$((i+1)); done"""
SPECIAL = ("link", "environ", "up", "root", "slash", "loop", "way/etc", "descriptors", "good", "pipe")


def run_once(world, root, **request):
    """As root it has what capabilities there are, or it could not even write into /workspace."""
    where = {"template": world.capable_template(), "runAsRoot": True} if root else {"image": world.image}
    code, text = world.platform.curl("/v1/run", json.dumps({**where, **request}), world.access)
    assert code == 200, f"HTTP {code}: {text[:300]}"
    return json.loads(text)


def content_of(file):
    return file.get("text", "") or base64.b64decode(file.get("data", ""))


def links_read_outside(world):
    """What reading by name, as a trusting collector does, gives for such a link; and a pipe would hold it up."""
    place = os.path.join(world.scratch, "read")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    os.symlink("/etc/passwd", os.path.join(place, "link"))
    os.mkfifo(os.path.join(place, "pipe"))
    with open("/etc/passwd") as file:
        theirs = file.read()
    with open(os.path.join(place, "link")) as file:
        assert file.read() == theirs, "the link is not followed: the control shows nothing"
    try:
        subprocess.run(["cat", os.path.join(place, "pipe")], timeout=0.5, check=False)
        raise AssertionError("the pipe does not hold its reader up: the control shows nothing")
    except subprocess.TimeoutExpired:
        pass
    shutil.rmtree(place)
    return "reading by name gives /etc/passwd for such a link outside, and waits for such a pipe"


def check_collected(result):
    assert result["outcome"] == "exited", result
    files = {f["path"]: f for f in result.get("files", [])}
    assert files["out/file"]["text"] == MINE and files["out/deep/file"]["text"] == MINE, sorted(files)[:20]
    for name in SPECIAL:
        file = files.get("out/" + name)
        assert file and file.get("skipped") and not content_of(file), f"{name}: {file}"
    assert files["out/huge"].get("skipped") == "too large", files["out/huge"]
    for path, file in files.items():
        data = content_of(file)
        known = (MINE, "", "\n", b"")
        assert data in known or path == "out/hard", f"{path} came back with {data[:60]!r}"
    return files


@attack("28/29", "links, pipes, nodes and huge files where a run's results are collected")
def collected_files(world):
    told = []
    for root in (False, True):
        began = time.monotonic()
        result = run_once(world, root, command=PLANT, collect=["out/**", "**/passwd"],
                          limits={"diskMegabytes": 200, "wallMs": 30000})
        took = time.monotonic() - began
        files = check_collected(result)
        many = run_once(world, root, command=PLANT, collect=["many/**"])
        assert len(many["files"]) < 3000 <= len(many["files"]) + many["filesLeftOut"], len(many["files"])
        assert took < 30, f"took {took:.0f} s"
        told.append(f"{'root' if root else 'user'}: {len(files)} files, {result.get('filesLeftOut', 0)} left out, "
                    f"{sum(1 for f in files.values() if f.get('skipped'))} skipped with the reason")
    code, text = world.platform.curl("/v1/run", json.dumps({"image": world.image, "argv": ["true"], "collect": ["../../etc/*"]}),
                                     world.access)
    assert code == 400 and "collect" in text, f"HTTP {code}: {text[:200]}"
    return told + ["a pattern with .. refused"], links_read_outside(world)


@attack("5/29", "a folder that becomes a link while results are collected")
def flipping_folder(world):
    command = ("mkdir out && printf mine > out/passwd && ln -s /etc out.other && "
               "(setsid /attempts flip=/workspace/out,3 >/dev/null 2>&1 </dev/null &) ; sleep 0.05")
    end = time.monotonic() + 6
    rounds = with_file = 0
    while time.monotonic() < end:
        result = run_once(world, bool(rounds % 2), command=command, collect=["out*/**", "out*"])
        rounds += 1
        for file in result.get("files", []):
            assert content_of(file) in (MINE, b"", ""), f"{file['path']} came back with {content_of(file)[:60]!r}"
            with_file += content_of(file) == MINE
    assert with_file > 0, "no file came back at all"
    return [f"user and root: {rounds} rounds, {with_file} with the file itself"], links_read_outside(world)


# --- to the user's own machine ---


@attack(29, "links, pipes and nodes where the SDK and the client copy out of a workspace")
def copied_files(world):
    box = world.workspace()
    place = os.path.join(world.scratch, "copied")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    told = []
    try:
        box.exec(PLANT, cwd="/workspace", timeout=30)
        inside = box.exec("cat /etc/passwd").stdout
        assert box.files.read_bytes("/workspace/out/link").decode() == inside, "a link leads elsewhere than inside"
        for name, reason in (("out/huge", "RESOURCE_EXHAUSTED"), ("out", None), ("out/slash", None)):
            try:
                box.files.read_bytes("/workspace/" + name, max_bytes=4096, timeout=10)
                raise AssertionError(f"{name} was read")
            except CordiumError as error:
                assert not reason or error.code == reason, f"{name}: {error.code}: {error}"
        for name in ("pipe", "slash", "/dev/zero", "/dev/ptmx"):
            path = name if name.startswith("/") else "/workspace/out/" + name
            began = time.monotonic()
            done = world.platform.cli("cp", f"{box.name}:{path}", os.path.join(place, "x"), timeout=20)
            assert done.returncode != 0 and time.monotonic() - began < 10, f"{path}: {done}"
            assert "regular file" in done.stderr and path in done.stderr, f"{path}: {done.stderr}"
            assert not os.listdir(place), os.listdir(place)
            told.append(f"cp {name} refused")
        done = world.platform.cli("cp", f"{box.name}:/workspace/out/good", os.path.join(place, "good"))
        with open(os.path.join(place, "good")) as file:
            assert file.read() == MINE, done
    finally:
        box.delete()
        shutil.rmtree(place)
    return ["SDK: read inside or refused", *told], links_read_outside(world)


EVIL_SHELL = b"""#!/bin/busybox sh
case "$2" in
*"tar -C"*) exec /bin/busybox cat /evil.tar ;;
esac
exec /bin/busybox sh "$@"
"""
# What a tar that is the sandbox's own may send.
ARCHIVES = [
    ("names that lead out", [member("ok", data=b"ok"), member("../escaped", data=b"x"), member("/tmp/cordium-attack-absolute", data=b"x"),
                             member("a/../../escaped", data=b"x")]),
    ("a file through a link", [member("ok", data=b"ok"), link("way", ".."), member("way/escaped", data=b"x")]),
    ("a hard link to a file outside", [member("ok", data=b"ok"), hard_link("hard", "../outside"), link("soft", "../outside"),
                                       hard_link("harder", "soft"), member("harder", data=b"overwritten")]),
    ("devices, pipes and set-user-id", [member("ok", data=b"ok"), folder("deep"), folder("deep/er"),
                                        *[make(where + name) for where in ("", "deep/", "deep/er/") for name, make in (
                                            ("node", lambda path: device(path, 1, 11)), ("pipe", fifo),
                                            ("suid", lambda path: member(path, data=b"x", mode=0o6755)))]]),
]


def copy_out(world, archive, place):
    """Copies a folder out of a workspace whose shell sends that archive when it is to call tar; gives
    the client's outcome."""
    evil = member("evil.tar", data=images.tar(archive), mode=0o644)
    box = world.workspace(world.registry.push("evil-tar", [images.gone("bin/sh"), evil], [member("bin/sh", data=EVIL_SHELL)]))
    try:
        return world.platform.cli("cp", "-r", f"{box.name}:/workspace", place, timeout=30)
    finally:
        box.delete()


def new_place(world):
    base = os.path.join(world.scratch, "home")
    shutil.rmtree(base, ignore_errors=True)
    os.makedirs(os.path.join(base, "copy"))
    with open(os.path.join(base, "outside"), "w") as file:
        file.write("untouched")
    return base, os.path.join(base, "copy")


def check_place(base, name):
    assert sorted(os.listdir(base)) == ["copy", "outside"], f"{name}: {os.listdir(base)}"
    with open(os.path.join(base, "outside")) as file:
        assert file.read() == "untouched", f"{name}: a file outside was written"
    assert not os.path.exists("/tmp/cordium-attack-absolute"), f"{name}: an absolute name was followed"
    assert os.stat(os.path.join(base, "outside")).st_nlink == 1, f"{name}: a file outside has a new name"
    for path, _, names in os.walk(os.path.join(base, "copy")):
        for entry in names:
            st = os.lstat(os.path.join(path, entry))
            assert stat.S_ISREG(st.st_mode) or stat.S_ISLNK(st.st_mode), f"{name}: {entry} is {stat.filemode(st.st_mode)}"
            assert not st.st_mode & 0o6000, f"{name}: {entry} is {stat.filemode(st.st_mode)}"


@attack(29, "archives of a hostile tar where the client copies a folder")
def copied_folders(world):
    told = []
    base, place = new_place(world)
    for text in (b"first", b"second"):  # what is no trap arrives, and is replaced by the next copy
        kept = [folder("sub", 0o555), member("sub/file", data=text, mode=0o444), link("link", "sub/file")]
        done = copy_out(world, kept, place)
        assert done.returncode == 0 and os.path.islink(os.path.join(place, "link")), done
        with open(os.path.join(place, "link"), "rb") as file:
            assert file.read() == text, f"the copy has not {text}"
        assert stat.S_IMODE(os.stat(os.path.join(place, "sub")).st_mode) == 0o555, os.stat(os.path.join(place, "sub"))
    for name, archive in ARCHIVES:
        base, place = new_place(world)
        done = copy_out(world, archive, place)
        check_place(base, name)
        told.append(f"{name} ({'refused' if done.returncode else 'inert'})")
    # The second copy into one folder goes through the links that the first has left.
    base, place = new_place(world)
    copy_out(world, [member("ok", data=b"ok"), link("way", "..")], place)
    done = copy_out(world, [member("way/escaped", data=b"x"), member("way/outside", data=b"overwritten")], place)
    check_place(base, "links of an earlier copy")
    assert done.returncode != 0 and "way" in done.stderr, f"the second copy: {done}"
    told.append("links of an earlier copy (refused)")
    shutil.rmtree(base)
    return told, links_followed_outside(world)


# --- what is removed ---

TRAPS = r"""cd /workspace && ln -s /etc etc && ln -s / slash && mkdir -p a/b && ln -s ../.. a/b/up && mkfifo pipe && ln pipe pipe2
mkdir closed && printf x > closed/x && chmod 000 closed; mkdir "$(printf 'new\nline')"; ln -s /workspace a/self
printf x > ~/x; ln -s /root ~/root; ln ~/x ~/y; i=0; while [ $i -lt 2000 ]; do ln -s /etc/passwd l$i; i=$((i+1)); done"""


@attack(28, "links, hard links and deep folders in a storage that is removed")
def removed_storage(world):
    before = host_state()
    told = []
    for root in (False, True):
        box = world.workspace(ephemeral=False, capabilities=["ALL"])
        box.exec(TRAPS, root=root, timeout=30)
        deep = world.attempt(box, "deep-path=3", root=root)[0]
        prints = world.footprint(box)
        began = time.monotonic()
        box.stop()
        box.wait_until_stopped(timeout=20, poll_interval=0.05)
        box.delete()
        world.wait_until_gone(prints)
        told.append(f"{'root' if root else 'user'}: {deep.note.strip()}, gone after {time.monotonic() - began:.1f} s")
    assert eventually(lambda: host_state() == before, 1), "the host was changed"
    return told, links_followed_outside(world)
