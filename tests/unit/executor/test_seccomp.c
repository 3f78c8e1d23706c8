#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "executor/steps/seccomp_filter.h"

Suite *suite_seccomp(void);

#define EPERM_VERDICT (SECCOMP_RET_ERRNO | EPERM)
#define ENOSYS_VERDICT (SECCOMP_RET_ERRNO | ENOSYS)

static struct seccomp_program build(bool is_build)
{
    struct seccomp_program p;
    struct error err;
    ck_assert_int_eq(seccomp_program_build(is_build, &p, &err), 0);
    return p;
}

static uint32_t verdict(const struct seccomp_program *p, uint32_t nr, uint64_t a, uint64_t b,
                        uint64_t c)
{
    const uint64_t args[6] = {a, b, c, 0, 0, 0};
    return seccomp_program_run(p, AUDIT_ARCH_X86_64, nr, args);
}

/* The table read a second way: the plain verdict of each number. */
static uint32_t expected(uint32_t nr, bool is_build)
{
    switch (nr) {
#define ALLOW(name)                                                                                \
    case SYS_##name:                                                                               \
        return SECCOMP_RET_ALLOW;
#define ALLOW_NEW(name, number)                                                                    \
    case (number):                                                                                 \
        return SECCOMP_RET_ALLOW;
#define REFUSE(name)                                                                               \
    case SYS_##name:                                                                               \
        return EPERM_VERDICT;
#define REFUSE_NEW(name, number)                                                                   \
    case (number):                                                                                 \
        return EPERM_VERDICT;
#define BUILD_ONLY(name)                                                                           \
    case SYS_##name:                                                                               \
        return is_build ? SECCOMP_RET_ALLOW : EPERM_VERDICT;
#define CHECKED(name)                                                                              \
    case SYS_##name:                                                                               \
        return 0;
#include "executor/steps/syscalls.def"
    default:
        return ENOSYS_VERDICT;
    }
}

START_TEST(every_number_has_the_verdict_of_the_table)
{
    struct seccomp_program p = build(_i);
    for (uint32_t nr = 0; nr < 2000; nr++) {
        uint32_t want = expected(nr, _i);
        if (want != 0) {
            ck_assert_msg(verdict(&p, nr, 0, 0, 0) == want, "call %u", nr);
            ck_assert_msg(verdict(&p, nr, UINT64_MAX, UINT64_MAX, 1) == want, "call %u", nr);
        }
        /* x32 */
        ck_assert(verdict(&p, nr | 0x40000000u, 0, 0, 0) == ENOSYS_VERDICT);
    }
    ck_assert(verdict(&p, UINT32_MAX, 0, 0, 0) == ENOSYS_VERDICT);
}
END_TEST

START_TEST(another_architecture_is_killed)
{
    struct seccomp_program p = build(false);
    const uint64_t args[6] = {0};
    for (uint32_t nr = 0; nr < 600; nr++) {
        ck_assert(seccomp_program_run(&p, AUDIT_ARCH_I386, nr, args) == SECCOMP_RET_KILL_PROCESS);
    }
}
END_TEST

START_TEST(sockets_are_of_four_families_only)
{
    struct seccomp_program p = build(false);
    for (uint64_t family = 0; family < 64; family++) {
        bool is_fine =
            family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
        bool is_allowed =
            verdict(&p, SYS_socket, family, SOCK_STREAM, NETLINK_ROUTE) == SECCOMP_RET_ALLOW;
        ck_assert_msg(is_allowed == is_fine, "family %d", (int)family);
    }
    for (uint64_t protocol = 1; protocol < 32; protocol++) {
        ck_assert(verdict(&p, SYS_socket, AF_NETLINK, SOCK_RAW, protocol) != SECCOMP_RET_ALLOW);
    }
    ck_assert(verdict(&p, SYS_socketpair, AF_UNIX, 0, 0) == SECCOMP_RET_ALLOW);
    ck_assert(verdict(&p, SYS_socketpair, AF_INET, 0, 0) != SECCOMP_RET_ALLOW);
}
END_TEST

START_TEST(internet_sockets_are_streams_and_datagrams_of_the_usual_protocols)
{
    static const uint64_t fine[] = {0, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6};
    struct seccomp_program p = build(true);
    for (uint64_t family = AF_INET; family <= AF_INET6; family += AF_INET6 - AF_INET) {
        for (uint64_t protocol = 0; protocol < 512; protocol++) {
            bool is_fine = false;
            for (size_t i = 0; i < 5; i++) {
                is_fine = is_fine || fine[i] == protocol;
            }
            uint64_t type = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
            bool is_allowed = verdict(&p, SYS_socket, family, type, protocol) == SECCOMP_RET_ALLOW;
            ck_assert_msg(is_allowed == is_fine, "protocol %d", (int)protocol);
        }
        for (uint64_t type = 0; type < 16; type++) {
            bool is_allowed = verdict(&p, SYS_socket, family, type, 0) == SECCOMP_RET_ALLOW;
            ck_assert(is_allowed == (type == SOCK_STREAM || type == SOCK_DGRAM));
        }
    }
}
END_TEST

START_TEST(options_that_attach_protocols_or_replace_tables_are_refused)
{
    struct seccomp_program p = build(true);
    ck_assert(verdict(&p, SYS_setsockopt, 0, SOL_TCP, TCP_ULP) == (SECCOMP_RET_ERRNO | ENOENT));
    ck_assert(verdict(&p, SYS_setsockopt, 0, SOL_TCP, TCP_NODELAY) == SECCOMP_RET_ALLOW);
    ck_assert(verdict(&p, SYS_setsockopt, 0, SOL_IP, 64) == EPERM_VERDICT);
    ck_assert(verdict(&p, SYS_setsockopt, 0, SOL_IPV6, 64) == EPERM_VERDICT);
    ck_assert(verdict(&p, SYS_setsockopt, 0, SOL_IPV6, IPV6_V6ONLY) == SECCOMP_RET_ALLOW);
    ck_assert(verdict(&p, SYS_setsockopt, 0, SOL_SOCKET, SO_REUSEADDR) == SECCOMP_RET_ALLOW);
}
END_TEST

START_TEST(no_lease_is_taken_and_no_subvolume_made)
{
    static const uint64_t refused[] = {BTRFS_IOC_SUBVOL_CREATE,   BTRFS_IOC_SUBVOL_CREATE_V2,
                                       BTRFS_IOC_SNAP_CREATE,     BTRFS_IOC_SNAP_CREATE_V2,
                                       BTRFS_IOC_SNAP_DESTROY,    BTRFS_IOC_QGROUP_CREATE,
                                       BTRFS_IOC_SUBVOL_SETFLAGS, BTRFS_IOC_SNAP_DESTROY_V2};
    static const uint64_t shared[] = {FICLONE, FICLONERANGE, FIDEDUPERANGE, FS_IOC_GETFLAGS};
    struct seccomp_program p = build(true);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ck_assert(verdict(&p, SYS_ioctl, 0, refused[i], 0) == EPERM_VERDICT);
    }
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        ck_assert(verdict(&p, SYS_ioctl, 0, shared[i], 0) == SECCOMP_RET_ALLOW);
    }
    ck_assert(verdict(&p, SYS_fcntl, 0, F_SETLEASE, F_WRLCK) == EPERM_VERDICT);
    ck_assert(verdict(&p, SYS_fcntl, 0, F_SETFL, O_NONBLOCK) == SECCOMP_RET_ALLOW);
}
END_TEST

START_TEST(clone_makes_threads_and_processes_but_no_namespace)
{
    static const uint64_t namespaces[] = {CLONE_NEWNS,  CLONE_NEWUTS, CLONE_NEWIPC,   CLONE_NEWUSER,
                                          CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP};
    struct seccomp_program p = build(false);
    ck_assert(verdict(&p, SYS_clone, CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | 17, 0, 0) ==
              SECCOMP_RET_ALLOW);
    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
        ck_assert(verdict(&p, SYS_clone, namespaces[i] | 17, 0, 0) == EPERM_VERDICT);
        /* Bits above the low half are not looked at by the kernel, and must not hide a flag. */
        ck_assert(verdict(&p, SYS_clone, namespaces[i] | UINT64_C(1) << 40, 0, 0) == EPERM_VERDICT);
    }
}
END_TEST

START_TEST(terminal_and_project_ioctls_are_refused_whatever_the_high_half)
{
    static const uint64_t refused[] = {TIOCSTI, 0x541c, TIOCCONS, TIOCSETD, 0x401c5820};
    struct seccomp_program p = build(false);
    for (size_t i = 0; i < 5; i++) {
        ck_assert(verdict(&p, SYS_ioctl, 0, refused[i], 0) == EPERM_VERDICT);
        ck_assert(verdict(&p, SYS_ioctl, 0, refused[i] | UINT64_C(1) << 32, 0) == EPERM_VERDICT);
    }
    ck_assert(verdict(&p, SYS_ioctl, 0, TCGETS, 0) == SECCOMP_RET_ALLOW);
}
END_TEST

START_TEST(program_uses_only_what_the_kernel_can_emulate_at_load)
{
    struct seccomp_program p = build(false);
    ck_assert_uint_lt(p.length, 260);
    for (unsigned i = 0; i < p.length; i++) {
        ck_assert(BPF_CLASS(p.code[i].code) == BPF_LD || BPF_CLASS(p.code[i].code) == BPF_JMP ||
                  BPF_CLASS(p.code[i].code) == BPF_RET ||
                  p.code[i].code == (BPF_ALU | BPF_AND | BPF_K));
    }
}
END_TEST

Suite *suite_seccomp(void)
{
    Suite *s = suite_create("executor seccomp filter");
    TCase *t = tcase_create("program");
    tcase_add_loop_test(t, every_number_has_the_verdict_of_the_table, 0, 2);
    tcase_add_test(t, another_architecture_is_killed);
    tcase_add_test(t, sockets_are_of_four_families_only);
    tcase_add_test(t, internet_sockets_are_streams_and_datagrams_of_the_usual_protocols);
    tcase_add_test(t, options_that_attach_protocols_or_replace_tables_are_refused);
    tcase_add_test(t, no_lease_is_taken_and_no_subvolume_made);
    tcase_add_test(t, clone_makes_threads_and_processes_but_no_namespace);
    tcase_add_test(t, terminal_and_project_ioctls_are_refused_whatever_the_high_half);
    tcase_add_test(t, program_uses_only_what_the_kernel_can_emulate_at_load);
    suite_add_tcase(s, t);
    return s;
}
