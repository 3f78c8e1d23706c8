"""The rows of which one attempt is the whole test: what each place must answer, and the control."""


class Probe:
    """`refused`: the words that a workspace may answer with; `build` the same for both places of a
    build, or None with `why` a build is not asked. `absent`: the words that the control may answer
    with where this kernel has no such thing, and the reason."""

    def __init__(self, row, name, attempt, refused, build=(), why="", absent=(), because="", note="", before="",
                 control=None, capable=()):
        self.row, self.name, self.attempt = row, name, attempt
        self.refused = refused.split()
        self.build = None if build is None else (build.split() if build else self.refused)
        self.why, self.absent, self.because, self.note = why, absent and absent.split(), because, note
        self.before, self.control, self.capable = before, control or attempt, capable


BUILDERS_MOUNT = "image builders mount in a namespace of their own"
BUILDERS_NEST = "image builders nest user namespaces"
FILTER = "by the filter"
# Bits of linux/capability.h that reach beyond files and ids: DAC_READ_SEARCH, NET_ADMIN, NET_RAW, SYS_MODULE,
# SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, SYS_BOOT, SYS_RESOURCE, SYS_TIME, SYSLOG, PERFMON, BPF.
FAR_REACHING = "CapEff,CapPrm&" + hex(sum(1 << n for n in (2, 12, 13, 16, 17, 19, 21, 22, 24, 25, 34, 38, 39)))


def family(row, name, numbers, refused, absent="", because=""):
    return Probe(row, f"{name} socket", f"socket={numbers}", refused, absent=absent, because=because, note=FILTER)


def kernel_file(row, path, refused="EACCES ENOENT EROFS", absent="ENOENT", because="it has no such file", build="",
                why=""):
    return Probe(row, f"write {path}", f"open-write={path}", refused, absent=absent, because=because, build=build,
                 why=why)


MASK = "mount --bind /dev/null /proc/kallsyms;"

PROBES = [
    # Descriptors and paths that lead out.
    Probe(2, "descriptors of the host", "find-descriptors", "EBADF", build=None,
          why="buildah leaves a pipe of its own; around it: see below", before="exec 9</;"),
    Probe(2, "working directory by a descriptor", "leave-by-descriptor", "ENOENT", control="leave-by-kept-descriptor"),
    Probe(2, "chroot", "chroot", "EPERM", build=None, why="image builders run steps in one"),
    # Control groups.
    Probe(3, "release_agent of cgroup v1", "release-agent", "EPERM", build="EPERM EACCES ENOENT"),
    # Terminals.
    Probe(13, "TIOCSTI", "tiocsti", "EPERM", absent="EIO EPERM", because="it is built without CONFIG_LEGACY_TIOCSTI"),
    Probe(13, "TIOCSTI with high bits", "tiocsti-high-bits", "EPERM", absent="EIO EPERM",
          because="it is built without CONFIG_LEGACY_TIOCSTI"),
    Probe(14, "TIOCLINUX", "tioclinux", "EPERM", absent="ENOTTY ENXIO EIO", because="it has no console"),
    Probe(14, "consoles and other devices", "find-devices", "ENOENT"),
    # Socket families.
    family(16, "AF_ALG", "38,5,0", "EAFNOSUPPORT", "EAFNOSUPPORT", "it is built without CONFIG_CRYPTO_USER_API"),
    family(17, "NETLINK_XFRM", "16,3,6", "EPROTONOSUPPORT", "EPROTONOSUPPORT", "it is built without CONFIG_XFRM_USER"),
    family(17, "AF_KEY", "15,3,2", "EAFNOSUPPORT", "EAFNOSUPPORT", "it is built without CONFIG_NET_KEY"),
    family(17, "AF_RXRPC", "33,2,2", "EAFNOSUPPORT", "EAFNOSUPPORT", "it is built without CONFIG_AF_RXRPC"),
    Probe(17, "espintcp on a TCP socket", "tcp-ulp=espintcp", "ENOENT", absent="ENOENT",
          because="it is built without CONFIG_INET_ESPINTCP", note=FILTER),
    Probe(17, "user and network namespace", "unshare-user-and-net", "EPERM", build=None, why=BUILDERS_NEST),
    family(18, "raw IPv4", "2,3,255", "EPERM"),
    family(18, "raw IPv6", "10,3,58", "EPERM"),
    family(18, "AF_PACKET", "17,3,768", "EAFNOSUPPORT"),
    family(19, "NETLINK_NETFILTER", "16,3,12", "EPROTONOSUPPORT"),
    Probe(19, "table of nf_tables", "nft-table", "EPROTONOSUPPORT"),
    # Mounts.
    Probe(20, "mount", "mount-tmpfs", "EPERM", build=None, why=BUILDERS_MOUNT),
    Probe(20, "mount namespace", "unshare-mounts", "EPERM", build=None, why=BUILDERS_MOUNT),
    Probe(20, "set-user-id file through an overlay", "overlay-suid", "EPERM"),
    Probe(21, "fsopen", "fsopen", "EPERM", build=None, why=BUILDERS_MOUNT),
    Probe(21, "open_tree", "open-tree", "EPERM", build=None, why=BUILDERS_MOUNT),
    Probe(22, "user namespace by unshare", "unshare-user", "EPERM", build=None, why=BUILDERS_NEST),
    # System calls.
    Probe(23, "io_uring", "io-uring", "ENOSYS"),
    Probe(24, "calls of i386", "int80", "SIGSYS", absent="SIGSEGV", because="it has no ia32 emulation"),
    Probe(24, "calls of x32", "x32", "ENOSYS", absent="ENOSYS", because="it is built without CONFIG_X86_X32_ABI"),
    Probe(24, "IPT_SO_SET_REPLACE", "ipt-replace", "EPERM", absent="ENOPROTOOPT", because="it has no xtables"),
    Probe(25, "capabilities", "find-capabilities", "EPERM", build=None, capable=None, why="see the next two lines"),
    Probe(25, "capabilities beyond files and ids", "find-capabilities=" + FAR_REACHING, "EPERM", build=None,
          why="its user namespace owns its mounts, and nothing else"),
    Probe(25, "inheritable and ambient capabilities", "find-capabilities=CapInh,CapAmb", "EPERM",
          before="setpriv --inh-caps=+sys_admin --ambient-caps=+sys_admin"),
    # Kernel-wide helpers.
    kernel_file(30, "/proc/sys/kernel/core_pattern"),
    kernel_file(30, "/proc/sys/kernel/modprobe", because="it has no modules"),
    kernel_file(30, "/proc/sys/fs/binfmt_misc/register", because="binfmt_misc is not mounted"),
    kernel_file(30, "/proc/sysrq-trigger", because="it is built without CONFIG_MAGIC_SYSRQ"),
    kernel_file(30, "/sys/kernel/uevent_helper", because="it is built without CONFIG_UEVENT_HELPER"),
    kernel_file(30, "/proc/sys/vm/panic_on_oom"),
    kernel_file(30, "/proc/sys/user/max_user_namespaces", absent="EACCES", build=None, why="it is the build's own number",
                because="the test lacks CAP_SYS_RESOURCE"),
    Probe(30, "core files", "raise-core-limit", "EPERM"),
    # Handles, keys.
    Probe(31, "open_by_handle_at", "open-by-handle", "EPERM"),
    Probe(32, "add_key", "add-key", "EPERM", build="EPERM ENOSYS"),
    Probe(32, "request_key", "request-key", "EPERM", build="EPERM ENOSYS", control="join-keyring"),
    Probe(32, "keyctl", "join-keyring", "EPERM", build=None, why="image builders join a keyring of their own"),
    # User namespaces.
    Probe(33, "user namespace by clone", "clone-user", "EPERM", build=None, why=BUILDERS_NEST),
    Probe(33, "user namespace by clone3", "clone3-user", "ENOSYS"),
    Probe(33, "six extents of a nested map", "nested-id-map", "EPERM", build="EPERM EACCES"),
    # BPF and perf.
    Probe(35, "bpf: map", "bpf-map", "EPERM"),
    Probe(35, "bpf: program", "bpf-program", "EPERM"),
    Probe(35, "perf_event_open", "perf-event", "EPERM"),
    # Race amplifiers.
    Probe(37, "userfaultfd", "userfaultfd", "EPERM"),
    kernel_file(37, "/dev/userfaultfd", "ENOENT", because="it has no such device"),
    kernel_file(37, "/dev/fuse", "ENOENT", because="it has no such device"),
    # Pid 1 and what set it up.
    Probe(11, "ptrace of pid 1", "ptrace=1", "EPERM"),
    Probe(11, "memory of pid 1 by process_vm_readv", "process-vm-readv=1", "EPERM"),
    Probe(11, "memory of pid 1 by /proc", "open-memory=1", "EACCES"),
    Probe(11, "environment of pid 1", "open-environment=1", "EACCES"),
    Probe(38, "descriptors of pid 1 by pidfd_getfd", "pidfd-getfd=1", "EPERM"),
    Probe(40, "mounts that propagate", "find-propagation", "ENOENT", before="mount --make-shared /proc;"),
    Probe(40, "setns", "setns", "EPERM"),
    Probe(40, "a writable root by mount_setattr", "remount-root", "EPERM"),
    Probe(40, "masks of /proc by umount", "unmask", "EPERM", build="EPERM EINVAL", before=MASK),
    family(41, "AF_VSOCK", "40,1,0", "EAFNOSUPPORT", "EAFNOSUPPORT", "it is built without CONFIG_VSOCKETS"),
    Probe(43, "a procfs without masks", "mount-proc", "EPERM"),
    # Clocks.
    Probe(44, "settimeofday", "settimeofday", "EPERM"),
    Probe(44, "clock_settime", "set-clock", "EPERM", control="adjust-clock"),
    Probe(44, "adjtimex", "adjust-clock", "EPERM"),
    Probe(44, "CLOCK_REALTIME_ALARM", "alarm-clock", "EPERM EOPNOTSUPP", absent="EOPNOTSUPP", because="it has no RTC"),
    # Devices.
    Probe(9, "a node of the kernel's log", "make-device=c,1,11", "EPERM EACCES"),
    Probe(9, "a node of a disk", "make-device=b,7,0", "EPERM EACCES"),
    Probe(42, "terminals of others", "find-terminals", "ENOENT", before="exec 9<>/dev/ptmx;"),
    # Page caches; that a neighbour sees nothing is another row.
    Probe(15, "Dirty Pipe on a file of the image", "dirty-pipe=/bin/busybox", "EPERM", absent="EPERM", build=None,
          why="see the page cache of the host", because="it has the fix"),
    Probe(36, "Dirty COW on a file of the image", "dirty-cow=/bin/busybox", "EPERM", absent="EPERM", build=None,
          why="see the page cache of the host", because="it has the fix"),
]


def check(probe, place, outcome, allowed):
    if outcome.text == "succeeded":
        return f"{place}: it SUCCEEDED: {outcome}"
    if outcome.word not in allowed:
        return f"{place}: {outcome}, not {' or '.join(allowed)}"
    if probe.note and probe.note not in outcome.note:
        return f"{place}: {outcome}: not {probe.note}"
    return None


def check_control(probe, outcome):
    """Gives (what to print, what is wrong)."""
    if outcome.text == "succeeded":
        return "works outside", None
    if probe.absent and outcome.word in probe.absent:
        return f"not on this kernel, because {probe.because} ({outcome.text} outside)", None
    return "", f"control: {outcome} outside, where it should work"


def gather(world, user, root, capable):
    """Each probe's outcome in each place: {place: {attempt: Outcome}}."""
    def named(probes, outcomes):
        return {probe.attempt: outcome for probe, outcome in zip(probes, outcomes)}

    words = [probe.attempt for probe in PROBES]
    in_build = [probe for probe in PROBES if probe.build is not None]
    for_capable = [probe for probe in PROBES if probe.capable is not None]
    words_in_build = [probe.attempt for probe in in_build]
    return {
        "user": named(PROBES, world.attempt(user, *words, timeout=180)),
        "root": named(PROBES, world.attempt(root, *words, root=True, timeout=180)),
        "root with capabilities": named(for_capable, world.attempt(
            capable, *[probe.attempt for probe in for_capable], root=True, timeout=180)),
        "step": named(in_build, world.attempt_in_step(*words_in_build)),
        "build": named(in_build, world.attempt_in_builder(*words_in_build)),
    }


def controls(world):
    """Those that need nothing before them in one go."""
    plain = [probe for probe in PROBES if not probe.before]
    found = {id(p): o for p, o in zip(plain, world.outside(*[p.control for p in plain], timeout=180))}
    for probe in PROBES:
        if id(probe) not in found:
            found[id(probe)] = world.outside(probe.control, before=probe.before)[0]
    return found


def run(world, report):
    if not any(report.wants(probe.row) for probe in PROBES):
        return
    boxes = [world.workspace(read_only=True), world.workspace(), world.workspace(capabilities=["ALL"])]
    places = gather(world, *boxes)
    for box in boxes:
        box.delete()
    outside = controls(world)
    for probe in PROBES:
        if not report.wants(probe.row):
            continue
        wrong, told = [], []
        for place, outcomes in places.items():
            if probe.attempt not in outcomes:
                continue
            outcome = outcomes[probe.attempt]
            allowed = probe.build if place in ("step", "build") else probe.refused
            wrong.append(check(probe, place, outcome, allowed))
            told.append(f"{place} {outcome.word}")
        if probe.build is None:
            told.append(f"build not tried ({probe.why})")
        control, fault = check_control(probe, outside[id(probe)])
        report.line(probe.row, probe.name, told, control, [w for w in [*wrong, fault] if w])
