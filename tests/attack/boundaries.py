"""Between two sandboxes, and between a sandbox and the daemons."""

import fcntl
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

from report import attack
from world import ROOT, eventually, images


def refused(outcome, *words):
    assert outcome.text != "succeeded", f"{outcome.name} SUCCEEDED: {outcome}"
    assert not words or outcome.word in words, f"{outcome.name}: {outcome}, not {' or '.join(words)}"
    return outcome.word


def works(outcome):
    assert outcome.text == "succeeded", f"the control {outcome.name} does not work outside: {outcome}"


def in_background(function, *arguments):
    result = {}

    def go():
        try:
            result["value"] = function(*arguments)
        except Exception as error:  # told by who waits for it
            result["error"] = error

    thread = threading.Thread(target=go)
    thread.start()

    def wait():
        thread.join()
        if "error" in result:
            raise result["error"]
        return result["value"]

    return wait


# --- the helper's own program (row 1) ---


def launcher_name(world):
    """How the kernel calls the file that the launchers run from."""
    names = {os.path.basename(os.readlink(f"/proc/{pid}/exe")).partition(" ")[0]
             for pid, line in world.launchers().items() if b"cordium-init" in line}
    assert len(names) == 1, f"the launchers run from {names}"
    return names.pop()


def catch_launcher(world, seconds):
    """Its shell becomes a script of "#!/proc/self/exe": each exec then runs the launcher's own file,
    which the catcher takes by its link, and writes to when it is free. Gives (Outcome, starts)."""
    box = world.workspace()
    try:
        box.exec("cp /attempts /bin/attempts && printf '#!/proc/self/exe\\n' > /bin/trap && chmod 755 /bin/trap", root=True,
                 check=True)
        wait = in_background(lambda: world.attempt(box, f"catch-program={launcher_name(world)},{seconds}", root=True, program="/bin/attempts"))
        catcher_is_there = eventually(lambda: "catch-program" in box.exec("cat /proc/[0-9]*/cmdline", root=True).stdout, seconds)
        assert catcher_is_there, "the catcher does not start"
        box.exec("mv /bin/trap /bin/sh.new && mv /bin/sh.new /bin/sh", root=True, timeout=30)
        end = time.monotonic() + seconds - 1
        starts = 0
        while time.monotonic() < end:
            box.exec("true", root=True, timeout=30)
            starts += 1
        return wait()[0], starts
    finally:
        box.delete()


@attack(1, "overwriting the entering program through /proc/PID/exe")
def own_program(world):
    before = world.programs_hash()
    for seconds in (4, 8, 16):  # a busy machine may start none in the first
        caught, starts = catch_launcher(world, seconds)
        refused(caught, "EACCES")
        # Where a run may not look at another (Landlock), it is not even told which program that is.
        closed, opened = (int(re.search(word + r" (\d+)", caught.note).group(1)) for word in ("closed", "opened"))
        if closed or opened:
            break
    else:
        raise AssertionError(f"the launcher was never seen in {starts} starts, so that nothing was tried: {caught}")
    assert world.programs_hash() == before, "a program of the host was changed"
    return [f"root: {caught.note.strip()} in {starts} starts"], overwrite_control(world)


def overwrite_control(world):
    folder = os.path.join(world.scratch, "victim")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    shutil.copy(world.attempts, os.path.join(folder, "victim"))
    victim = os.path.join(folder, "victim")
    done = world.outside_shell(f"{victim} catch-setup=1 & {world.attempts} catch-program=victim,2; wait")
    with open(victim, "rb") as file:
        changed = file.read(4) == b"HURT"
    shutil.rmtree(folder)
    assert changed and "catch-program: succeeded" in done.stdout, done.stdout + done.stderr
    return "a copy of a program is overwritten so outside"


# --- what the daemon listens on, and what is passed over sockets (rows 4, 39) ---


def daemon_sockets(world):
    """Names of the unix sockets that our daemons have open."""
    inodes = set()
    for name in ("executor", "gateway"):
        folder = f"/proc/{world.host_pid(name)}/fd"
        for fd in os.listdir(folder):
            try:
                inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(os.path.join(folder, fd))))
            except OSError:
                pass
    names = []
    with open("/proc/net/unix") as lines:
        for line in list(lines)[1:]:
            words = line.split()
            if len(words) == 8 and words[6] in inodes:
                names.append(words[7])
    return names


@attack(4, "abstract sockets of the host")
def abstract_socket(world):
    name = f"cordium-attack-{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0" + name)
    listener.listen()
    told = []
    try:
        for network in (False, True):
            box = world.workspace(network=network)
            for root in (False, True):
                word = refused(world.attempt(box, "abstract-socket=" + name, root=root)[0], "ECONNREFUSED")
                told.append(f"{'root' if root else 'user'}{' with network' if network else ''} {word}")
            box.delete()
        told.append("build " + refused(world.attempt_in_builder("abstract-socket=" + name)[0], "ECONNREFUSED"))
        control = subprocess.run([world.attempts, "abstract-socket=" + name], capture_output=True, text=True)
        assert "succeeded" in control.stdout, control.stdout
    finally:
        listener.close()
    abstract = [n for n in daemon_sockets(world) if n.startswith("@")]
    assert not abstract, f"the daemons have abstract sockets: {abstract}"
    return told + ["the daemons have none"], "connects on the host"


@attack(39, "sockets of the daemons, and directories passed over those that are there")
def passed_descriptors(world):
    box = world.workspace()
    try:
        listed = box.exec("cat /proc/net/unix; find / -xdev -type s; find /run -type s", root=True, timeout=60).stdout
        inside = sorted(set(re.findall(r"(/\S+\.sock\S*|@\S+)", listed)))
        assert inside in ([], ["/run/octelium-proxy.sock"]), inside
        socket_of_executor = os.path.join(world.folder, "run", "executor.sock")
        for root in (False, True):
            refused(world.attempt(box, "socket-path=" + socket_of_executor, root=root)[0], "ENOENT", "EACCES")
        refused(world.attempt_in_builder("socket-path=" + socket_of_executor)[0], "ENOENT", "EACCES")
        before = len(os.listdir(f"/proc/{world.host_pid('gateway')}/fd"))
        told = []
        if inside:
            outcome = world.attempt(box, "pass-directories=" + inside[0])[0]
            refused(outcome)
            told.append(f"user {outcome}")
            grown = eventually(lambda: len(os.listdir(f"/proc/{world.host_pid('gateway')}/fd")) <= before + 8 and "no", 5)
            assert grown, "the gateway keeps descriptors that a workspace passed to it"
    finally:
        box.delete()
    control = subprocess.run([world.attempts, "socket-path=" + socket_of_executor], capture_output=True, text=True).stdout
    assert "succeeded" in control, control
    return told + [f"sockets inside: {', '.join(inside) or 'none'}", "no descriptor stays in the gateway"], "connects on the host"


# --- two sandboxes (rows 32, 38) ---


@attack(32, "keys of a neighbour and of the host")
def keys_of_others(world):
    holder = subprocess.Popen([world.attempts, "hold-key=attack"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        serial = holder.stdout.readline().split()[-1]
        box = world.workspace()
        told = [f"{'root' if root else 'user'} {refused(world.attempt(box, 'read-key=' + serial, root=root)[0], 'EPERM')}"
                for root in (False, True)]
        for root in (False, True):
            refused(world.attempt(box, "hold-key=attack", root=root)[0], "EPERM")
        masked = box.exec("cat /proc/keys; cat /proc/key-users", root=True).stdout
        box.delete()
        assert "attack" not in masked, masked
        told.append("build " + refused(world.attempt_in_builder("read-key=" + serial)[0], "EACCES", "ENOKEY", "EPERM"))
        seen = subprocess.run(["grep", "-c", "attack", "/proc/keys"], capture_output=True, text=True).stdout.strip()
        assert seen != "0", "the key of the control is not there"
    finally:
        holder.stdin.close()
        holder.wait(10)
    return told, "the key is there, and /proc/keys of the host shows it"


@attack(38, "processes of a neighbour")
def processes_of_others(world):
    mark = f"31{os.getpid()}"
    first, second = world.workspace(), world.workspace()
    try:
        stays = in_background(lambda: first.exec(f"exec sleep {mark}", timeout=60))
        pids = eventually(lambda: subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True, text=True).stdout.split())
        assert pids, "the neighbour's process is not there"
        told = []
        for root in (False, True):
            who = "root" if root else "user"
            seen, *others = world.attempt(second, f"see-processes={mark}", f"signal={pids[0]}", f"ptrace={pids[0]}",
                                          f"process-vm-readv={pids[0]}", f"pidfd-getfd={pids[0]}", f"open-memory={pids[0]}",
                                          f"open-root={pids[0]}", root=root)
            told.append(f"{who} sees {refused(seen, 'ESRCH')}")
            for outcome in others:
                refused(outcome, "ESRCH", "EPERM", "ENOENT")
        maps = [box.exec("cat /proc/self/uid_map").stdout.split() for box in (first, second)]
        assert maps[0][1] != maps[1][1] and abs(int(maps[0][1]) - int(maps[1][1])) >= 65536, maps
        control = subprocess.run([world.attempts, f"see-processes={mark}", f"ptrace={pids[0]}", f"signal={pids[0]}"],
                                 capture_output=True, text=True).stdout
        assert control.count("succeeded") == 3, control
        for pid in pids:
            os.kill(int(pid), 9)
        stays()
    finally:
        first.delete()
        second.delete()
    return told + ["ids do not overlap"], "the host sees, traces and signals it"


# --- page caches (rows 15, 16, 36) ---


@attack("15/16/36", "the page cache of an image's file, as a neighbour and the host see it")
def page_cache(world):
    tool = "/opt/cordium/bin/cordium-files"
    hash_both = f"sha256sum /bin/busybox {tool}"
    first, second = world.workspace(read_only=True), world.workspace(read_only=True)
    try:
        before = second.exec(hash_both, check=True).stdout
        host = world.programs_hash()
        for root in (False, True):
            for outcome in world.attempt(first, "dirty-pipe=/bin/busybox", "dirty-cow=/bin/busybox", f"dirty-pipe={tool}",
                                         f"dirty-cow={tool}", "socket=38,5,0", "open-write=/bin/busybox",
                                         f"open-write={tool}", root=root):
                refused(outcome)
        after = second.exec(hash_both, check=True).stdout
    finally:
        first.delete()
        second.delete()
    with open("/usr/bin/env", "rb") as file:
        env = file.read()
    for outcome in world.attempt_in_builder("dirty-pipe=/usr/bin/env", "dirty-cow=/usr/bin/env", "open-write=/usr/bin/env"):
        refused(outcome)
    with open("/usr/bin/env", "rb") as file:
        assert file.read() == env, "a build changed the host's page cache"
    assert before == after and world.programs_hash() == host, "a neighbour sees what another has changed"
    return ["user and root: neighbour's and host's hashes unchanged", "build: the host's /usr unchanged"], page_cache_control(world)


def page_cache_control(world):
    path = os.path.join(world.scratch, "read-only")
    shutil.copy(world.attempts, path)
    found = world.outside(f"dirty-pipe={path}", f"dirty-cow={path}", f"open-write={path}")
    os.unlink(path)
    works(found[2])
    fixed = [o.name for o in found[:2] if o.text != "succeeded"]
    return "a plain write works outside" + (f"; not on this kernel, because it has the fix: {', '.join(fixed)}" if fixed else "")


# --- set-up (row 11) ---


@attack(11, "memory of runs while they are set up")
def caught_in_setup(world):
    box = world.workspace()
    try:
        told = []
        for root in (False, True):
            wait = in_background(lambda root=root: world.attempt(box, "catch-setup=3", root=root))
            end = time.monotonic() + 2.5
            starts = 0
            while time.monotonic() < end:
                box.exec("true", root=root)
                starts += 1
            outcome = wait()[0]
            refused(outcome, "EACCES")
            told.append(f"{'root' if root else 'user'}: {outcome.note.strip()} in {starts} starts")
    finally:
        box.delete()
    works(world.outside("open-memory=1")[0])
    return told, "opens the memory of a process outside"


# --- mounts of the host (row 40) ---


@attack(40, "a mount that the host makes later")
def later_mount(world):
    point = os.path.join(world.scratch, "later")
    os.makedirs(point, exist_ok=True)
    box = world.workspace()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "later-mount-of-the-host", point], check=True)
    try:
        told = [f"{'root' if root else 'user'} {refused(world.attempt(box, 'find-mount=later-mount', root=root)[0], 'ENOENT')}"
                for root in (False, True)]
        told.append("build " + refused(world.attempt_in_builder("find-mount=later-mount")[0], "ENOENT"))
        control = subprocess.run([world.attempts, "find-mount=later-mount"], capture_output=True, text=True).stdout
        assert "succeeded" in control, control
    finally:
        subprocess.run(["umount", point], check=True)
        box.delete()
    return told, "the host sees it"


# --- terminals (rows 13, 42) ---

# The session and the terminal of a program, and where its input and output lead.
STREAMS = "set -- $(cat /proc/$$/stat); echo $$ $6 $7; for n in 0 1 2; do readlink /proc/$$/fd/$n; done"


def streams(text):
    (pid, session, terminal), *leads = [line.split() for line in text.splitlines()]
    return int(pid) == int(session), int(terminal), [words[0] for words in leads]


@attack(13, "the session and the streams of a program")
def own_session(world):
    box = world.workspace()
    try:
        texts = [box.exec(STREAMS, root=root).stdout for root in (False, True)]
        texts.append(world.builder(STREAMS))
    finally:
        box.delete()
    for text in texts:
        is_leader, terminal, leads = streams("\n".join(text.splitlines()[:4]))
        assert is_leader and terminal == 0, f"not a session of its own, or with a terminal: {text}"
        assert all(re.fullmatch(r"pipe:.*|socket:.*|/dev/null", lead) for lead in leads), f"streams lead to {leads}"
    return ["user, root, build: a session of its own, no terminal, pipes"], terminal_control()


def terminal_control():
    master, slave = os.openpty()
    done = subprocess.run(["setsid", "--ctty", "--wait", "bash", "-c", "exec >&2; " + STREAMS], stdin=slave, stderr=subprocess.PIPE,
                          text=True)
    os.close(master)
    os.close(slave)
    _, terminal, leads = streams(done.stderr)
    assert terminal != 0 and leads[0].startswith("/dev/pts/"), done.stderr
    return "a terminal is seen outside where there is one"



@attack(42, "the number of terminals of one sandbox")
def many_terminals(world):
    box = world.workspace()
    try:
        script = "n=0; exec 3<>/dev/ptmx && n=1; exec 4<>/dev/ptmx && n=2; ls /dev/pts; echo opened $n"
        listed = box.exec(script, root=True).stdout.split()
        assert listed[-1] == "2" and listed[:2] == ["0", "1"], listed
        options = box.exec("grep ' /dev/pts ' /proc/self/mountinfo").stdout
        assert "max=64" in options, options
    finally:
        box.delete()
    mounts = subprocess.run(["grep", "-c", " devpts ", "/proc/self/mounts"], capture_output=True, text=True).stdout
    return ["root: an instance of its own, numbers begin with 0, max=64"], f"the host has {mounts.strip()} mounts of devpts"


# --- information (row 43) ---


def readable(text):
    found = set()
    for line in text.splitlines():
        if line.startswith("readable "):
            found.add(re.sub(r"/\d+(?=/|$)", "/N", line.split()[1]))
    return found


@attack(43, "what can be read of the kernel, compared with an approved list")
def readable_files(world):
    with open(os.path.join(ROOT, "testdata", "attack", "readable.txt")) as lines:
        approved = {line.strip() for line in lines if line.startswith("/")}
    box = world.workspace()
    told = []
    lock = os.open(os.path.join(world.scratch, "lock"), os.O_RDWR | os.O_CREAT)
    fcntl.fcntl(lock, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
    try:
        assert "OFDLCK" in subprocess.run(["cat", "/proc/locks"], capture_output=True, text=True).stdout
        for root in (False, True):
            assert box.exec("cat /proc/locks", root=root).stdout == "", "it sees the locks of others"
            text = box.exec("/attempts list-readable=/proc list-readable=/sys", root=root, timeout=60).stdout
            seen = readable(text)
            more = sorted(seen - approved)
            assert not more, "readable, and not on the list: " + " ".join(more)
            assert seen, text
            told.append(f"{'root' if root else 'user'}: {len(seen)} of {len(approved)} approved")
    finally:
        os.close(lock)
        box.delete()
    outside = readable(world.outside_shell(world.attempts + " list-readable=/proc").stdout)
    return told, f"{len(outside - approved)} more of /proc can be read outside, such as {', '.join(sorted(outside - approved)[:3])}"


# --- set-user-id and capabilities of files (row 34) ---


@attack(34, "set-user-id programs and capabilities of files")
def gained_rights(world):
    box = world.workspace()
    try:
        text = box.exec("ls -ln /suid-attempts; grep NoNewPrivs /proc/self/status").stdout
        assert text.startswith("-rws") and "NoNewPrivs:\t1" in text, text
        told = []
        for program in ("/suid-attempts", "/capable-attempts"):
            for root in (False, True):
                outcome = world.attempt(box, "suid-program=" + program, root=root)[0]
                told.append(f"{'root' if root else 'user'} {program} {refused(outcome, 'EPERM')}")
    finally:
        box.delete()
    return told, gained_rights_control(world)


def gained_rights_control(world):
    """On a tmpfs of a mount namespace of its own, which nobody else has."""
    own = os.path.join(world.scratch, "own")
    os.makedirs(own, exist_ok=True)
    mark = f"import os; os.setxattr('capable', 'security.capability', bytes.fromhex('{images.ALL_CAPABILITIES.hex()}'))"
    script = (f"mount -t tmpfs -o mode=0755 none {own} && cd {own} && cp {world.attempts} suid && cp suid capable && "
              f'chmod 4755 suid && {sys.executable} -c "{mark}" && '
              f"./suid suid-program={own}/suid suid-program={own}/capable")
    found = world.outside_shell(script)
    assert found.stdout.count("suid-program: succeeded") == 2, found.stdout + found.stderr
    return "both gain rights outside"
