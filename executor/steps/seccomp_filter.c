#include "executor/steps/seccomp_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum {
    NUMBERS = 512, /* over the newest call; everything above is one interval of ENOSYS */
    INTERVALS_MAX = NUMBERS,
    OFFSET_NR = 0,
    OFFSET_ARCH = 4,
    OFFSET_ARGS = 16,
    TIOCSTI_NUMBER = 0x5412,   /* pushes bytes into the terminal of somebody else */
    TIOCLINUX_NUMBER = 0x541c, /* the same by pasting, on a console */
    TIOCCONS_NUMBER = 0x541d,
    TIOCSETD_NUMBER = 0x5423,       /* loads line disciplines, whole drivers of old devices */
    FSSETXATTR_NUMBER = 0x401c5820, /* would move a file out of its project quota */
    /* btrfs lets everybody make subvolumes: those have no limit and keep their parent from being
     * deleted. Of its ioctls only what all file systems share is allowed. */
    IOCTL_TYPE_MASK = 0xff00,
    IOCTL_TYPE_BTRFS = 0x9400,
    FICLONE_NUMBER = 0x40049409,
    FICLONERANGE_NUMBER = 0x4020940d,
    SOCKET_TYPE_MASK = 0xf, /* beside it are SOCK_CLOEXEC and SOCK_NONBLOCK */
    /* xtables and ebtables replace their tables by these options of level IP and IPV6. */
    IPT_SET_REPLACE = 64,
    ARPT_SET_REPLACE = 96,
    EBT_SET_ENTRIES = 128,
    PERSONALITY_QUERY = -1,
};

/* What may become of a call; the first LEAF_* have plain verdicts. */
enum leaf {
    LEAF_ENOSYS,
    LEAF_EPERM,
    LEAF_ALLOW,
    LEAF_SOCKET,
    LEAF_SOCKETPAIR,
    LEAF_CLONE,
    LEAF_FCNTL,
    LEAF_IOCTL,
    LEAF_SETSOCKOPT,
    LEAF_PERSONALITY,
    LEAF_KILL,
    LEAVES,
};

#define FIDEDUPERANGE_NUMBER 0xc0189436U

/* The namespaces of clone(2); time has no bit there. */
#define CLONE_NAMESPACES                                                                           \
    ((uint32_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |      \
                CLONE_NEWPID | CLONE_NEWNET))

struct interval {
    uint32_t first;
    enum leaf leaf;
};

/* A jump whose target leaf has no place yet. */
struct fixup {
    unsigned at;
    bool is_true;
    enum leaf leaf;
};

struct builder {
    struct seccomp_program *out;
    struct interval intervals[INTERVALS_MAX];
    unsigned interval_count;
    struct fixup fixups[SECCOMP_PROGRAM_MAX];
    unsigned fixup_count;
    bool is_build;
    bool failed;
};

static void fill_leaves(uint8_t leaves[NUMBERS], bool is_build)
{
    memset(leaves, LEAF_ENOSYS, NUMBERS);
#define ALLOW(name) leaves[SYS_##name] = LEAF_ALLOW;
#define ALLOW_NEW(name, number) leaves[(number)] = LEAF_ALLOW;
#define REFUSE(name) leaves[SYS_##name] = LEAF_EPERM;
#define REFUSE_NEW(name, number) leaves[(number)] = LEAF_EPERM;
#define BUILD_ONLY(name) leaves[SYS_##name] = is_build ? LEAF_ALLOW : LEAF_EPERM;
#include "executor/steps/syscalls.def"
    leaves[SYS_socket] = LEAF_SOCKET;
    leaves[SYS_socketpair] = LEAF_SOCKETPAIR;
    leaves[SYS_clone] = is_build ? LEAF_ALLOW : LEAF_CLONE;
    leaves[SYS_fcntl] = LEAF_FCNTL;
    leaves[SYS_ioctl] = LEAF_IOCTL;
    leaves[SYS_setsockopt] = LEAF_SETSOCKOPT;
    leaves[SYS_personality] = LEAF_PERSONALITY;
}

static unsigned emit(struct builder *b, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
    if (b->out->length >= SECCOMP_PROGRAM_MAX) {
        b->failed = true;
        return 0;
    }
    b->out->code[b->out->length] = (struct sock_filter){code, jt, jf, k};
    return b->out->length++;
}

static void jump_to_leaf(struct builder *b, unsigned at, bool is_true, enum leaf leaf)
{
    b->fixups[b->fixup_count++] = (struct fixup){at, is_true, leaf};
}

static void set_jump(struct builder *b, unsigned at, bool is_true, unsigned target)
{
    unsigned distance = target - at - 1;
    if (distance > UINT8_MAX) {
        b->failed = true;
    } else if (is_true) {
        b->out->code[at].jt = (uint8_t)distance;
    } else {
        b->out->code[at].jf = (uint8_t)distance;
    }
}

/* Emits the search over intervals [from, to). A single interval is a jump of its parent. */
static void emit_search(struct builder *b, unsigned from, unsigned to)
{
    unsigned middle = (from + to) / 2;
    unsigned at = emit(b, BPF_JMP | BPF_JGE | BPF_K, b->intervals[middle].first, 0, 0);
    if (middle - from == 1) {
        jump_to_leaf(b, at, false, b->intervals[from].leaf);
    } else {
        set_jump(b, at, false, b->out->length);
        emit_search(b, from, middle);
    }
    if (to - middle == 1) {
        jump_to_leaf(b, at, true, b->intervals[middle].leaf);
    } else {
        set_jump(b, at, true, b->out->length);
        emit_search(b, middle, to);
    }
}

static void emit_load_arg(struct builder *b, unsigned index)
{
    /* The kernel takes these arguments as int or unsigned int: the low half alone counts. */
    (void)emit(b, BPF_LD | BPF_W | BPF_ABS, OFFSET_ARGS + 8 * index, 0, 0);
}

static void emit_return(struct builder *b, uint32_t verdict)
{
    (void)emit(b, BPF_RET | BPF_K, verdict, 0, 0);
}

static void emit_refuse(struct builder *b, int error_number)
{
    emit_return(b, SECCOMP_RET_ERRNO | (uint32_t)error_number);
}

/* Continues with the next two instructions when equal: [allow] else skip. */
static void emit_if_equal_return(struct builder *b, uint32_t value, uint32_t verdict)
{
    (void)emit(b, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    emit_return(b, verdict);
}

static unsigned emit_if_equal_jump(struct builder *b, uint32_t value)
{
    return emit(b, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 0);
}

/* TCP, UDP and echo requests: the other protocols of IP are modules that any socket() loads. */
static void emit_inet_socket(struct builder *b)
{
    static const uint32_t protocols[] = {0, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6};
    emit_load_arg(b, 1);
    (void)emit(b, BPF_ALU | BPF_AND | BPF_K, SOCKET_TYPE_MASK, 0, 0);
    unsigned stream = emit_if_equal_jump(b, SOCK_STREAM);
    unsigned datagram = emit_if_equal_jump(b, SOCK_DGRAM);
    emit_refuse(b, EPERM);
    set_jump(b, stream, true, b->out->length);
    set_jump(b, datagram, true, b->out->length);
    emit_load_arg(b, 2);
    for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++) {
        emit_if_equal_return(b, protocols[i], SECCOMP_RET_ALLOW);
    }
    emit_refuse(b, EPROTONOSUPPORT);
}

static void emit_socket(struct builder *b)
{
    emit_load_arg(b, 0);
    emit_if_equal_return(b, AF_UNIX, SECCOMP_RET_ALLOW);
    unsigned inet = emit_if_equal_jump(b, AF_INET);
    unsigned inet6 = emit_if_equal_jump(b, AF_INET6);
    unsigned netlink = emit_if_equal_jump(b, AF_NETLINK);
    emit_refuse(b, EAFNOSUPPORT);
    set_jump(b, netlink, true, b->out->length);
    emit_load_arg(b, 2);
    emit_if_equal_return(b, NETLINK_ROUTE, SECCOMP_RET_ALLOW);
    emit_refuse(b, EPROTONOSUPPORT);
    set_jump(b, inet, true, b->out->length);
    set_jump(b, inet6, true, b->out->length);
    emit_inet_socket(b);
}

/* A lease on a file of the image would make each open in every other sandbox of that image wait
 * for up to 45 seconds. */
static void emit_fcntl(struct builder *b)
{
    emit_load_arg(b, 1);
    emit_if_equal_return(b, F_SETLEASE, SECCOMP_RET_ERRNO | EPERM);
    emit_return(b, SECCOMP_RET_ALLOW);
}

static void emit_ioctl(struct builder *b)
{
    static const uint32_t refused[] = {TIOCSTI_NUMBER, TIOCLINUX_NUMBER, TIOCCONS_NUMBER,
                                       TIOCSETD_NUMBER, FSSETXATTR_NUMBER};
    static const uint32_t shared[] = {FICLONE_NUMBER, FICLONERANGE_NUMBER, FIDEDUPERANGE_NUMBER};
    emit_load_arg(b, 1);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        emit_if_equal_return(b, refused[i], SECCOMP_RET_ERRNO | EPERM);
    }
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        emit_if_equal_return(b, shared[i], SECCOMP_RET_ALLOW);
    }
    (void)emit(b, BPF_ALU | BPF_AND | BPF_K, IOCTL_TYPE_MASK, 0, 0);
    emit_if_equal_return(b, IOCTL_TYPE_BTRFS, SECCOMP_RET_ERRNO | EPERM);
    emit_return(b, SECCOMP_RET_ALLOW);
}

/* Upper-layer protocols (espintcp, tls, smc) are kernel surface that no program needs; the tables
 * of xtables are within reach of builds, whose user namespaces nest. */
static void emit_setsockopt(struct builder *b)
{
    static const uint32_t tables[] = {IPT_SET_REPLACE, ARPT_SET_REPLACE, EBT_SET_ENTRIES};
    emit_load_arg(b, 1);
    unsigned tcp = emit_if_equal_jump(b, SOL_TCP);
    unsigned ip = emit_if_equal_jump(b, SOL_IP);
    unsigned ipv6 = emit_if_equal_jump(b, SOL_IPV6);
    emit_return(b, SECCOMP_RET_ALLOW);
    set_jump(b, tcp, true, b->out->length);
    emit_load_arg(b, 2);
    emit_if_equal_return(b, TCP_ULP, SECCOMP_RET_ERRNO | ENOENT);
    emit_return(b, SECCOMP_RET_ALLOW);
    set_jump(b, ip, true, b->out->length);
    set_jump(b, ipv6, true, b->out->length);
    emit_load_arg(b, 2);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        emit_if_equal_return(b, tables[i], SECCOMP_RET_ERRNO | EPERM);
    }
    emit_return(b, SECCOMP_RET_ALLOW);
}

static void emit_leaf(struct builder *b, enum leaf leaf)
{
    switch (leaf) {
    case LEAF_ENOSYS:
        emit_refuse(b, ENOSYS);
        break;
    case LEAF_EPERM:
        emit_refuse(b, EPERM);
        break;
    case LEAF_ALLOW:
        emit_return(b, SECCOMP_RET_ALLOW);
        break;
    case LEAF_SOCKET:
        emit_socket(b);
        break;
    case LEAF_SOCKETPAIR:
        emit_load_arg(b, 0);
        emit_if_equal_return(b, AF_UNIX, SECCOMP_RET_ALLOW);
        emit_refuse(b, EAFNOSUPPORT);
        break;
    case LEAF_CLONE:
        emit_load_arg(b, 0);
        (void)emit(b, BPF_JMP | BPF_JSET | BPF_K, CLONE_NAMESPACES, 1, 0);
        emit_return(b, SECCOMP_RET_ALLOW);
        emit_refuse(b, EPERM);
        break;
    case LEAF_FCNTL:
        emit_fcntl(b);
        break;
    case LEAF_IOCTL:
        emit_ioctl(b);
        break;
    case LEAF_SETSOCKOPT:
        emit_setsockopt(b);
        break;
    case LEAF_PERSONALITY:
        /* 0, a query, or no address randomisation (gdb, sanitizers); not READ_IMPLIES_EXEC. */
        emit_load_arg(b, 0);
        emit_if_equal_return(b, 0, SECCOMP_RET_ALLOW);
        emit_if_equal_return(b, (uint32_t)PERSONALITY_QUERY, SECCOMP_RET_ALLOW);
        emit_if_equal_return(b, 0x0040000, SECCOMP_RET_ALLOW);
        emit_refuse(b, EPERM);
        break;
    case LEAF_KILL:
        emit_return(b, SECCOMP_RET_KILL_PROCESS);
        break;
    case LEAVES:
    default:
        b->failed = true;
    }
}

static void find_intervals(struct builder *b)
{
    uint8_t leaves[NUMBERS];
    fill_leaves(leaves, b->is_build);
    leaves[NUMBERS - 1] = LEAF_ENOSYS; /* stands for everything above, x32 too */
    for (uint32_t nr = 0; nr < NUMBERS; nr++) {
        if (b->interval_count == 0 || b->intervals[b->interval_count - 1].leaf != leaves[nr]) {
            b->intervals[b->interval_count++] = (struct interval){nr, (enum leaf)leaves[nr]};
        }
    }
}

int seccomp_program_build(bool is_build, struct seccomp_program *ret, struct error *err)
{
    struct builder b = {.out = ret, .is_build = is_build};
    ret->length = 0;
    find_intervals(&b);
    (void)emit(&b, BPF_LD | BPF_W | BPF_ABS, OFFSET_ARCH, 0, 0);
    unsigned arch = emit(&b, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 0);
    jump_to_leaf(&b, arch, false, LEAF_KILL);
    (void)emit(&b, BPF_LD | BPF_W | BPF_ABS, OFFSET_NR, 0, 0);
    emit_search(&b, 0, b.interval_count);
    /* Short leaves first: they are the targets of most jumps, which reach 255 instructions. */
    for (unsigned leaf = 0; leaf < LEAVES; leaf++) {
        unsigned start = ret->length;
        bool is_used = false;
        for (unsigned i = 0; i < b.fixup_count; i++) {
            if (b.fixups[i].leaf == leaf) {
                is_used = true;
                set_jump(&b, b.fixups[i].at, b.fixups[i].is_true, start);
            }
        }
        if (is_used) {
            emit_leaf(&b, (enum leaf)leaf);
        }
    }
    return b.failed ? error_set(err, STATUS_INTERNAL,
                                "the system call table does not fit into a BPF program")
                    : 0;
}

uint32_t seccomp_program_run(const struct seccomp_program *program, uint32_t arch, uint32_t nr,
                             const uint64_t args[6])
{
    uint8_t data[64] = {0};
    memcpy(data + OFFSET_NR, &nr, 4);
    memcpy(data + OFFSET_ARCH, &arch, 4);
    memcpy(data + OFFSET_ARGS, args, 48);
    uint32_t a = 0;
    for (unsigned pc = 0; pc < program->length; pc++) {
        const struct sock_filter *i = &program->code[pc];
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            memcpy(&a, data + i->k, 4);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= i->k;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            pc += (a & i->k) != 0 ? i->jt : i->jf;
            break;
        case BPF_RET | BPF_K:
            return i->k;
        default:
            return SECCOMP_RET_KILL_PROCESS;
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}
