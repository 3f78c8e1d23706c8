/* Hostile trees, in a directory of the test's own. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "executor/image/account.h"
#include "executor/image/layers.h"
#include "executor/image/rootfs.h"
#include "executor/proc/fd.h"

struct tree {
    char path[64];
    int top; /* holds "root" and "outside" */
    int root;
    struct arena arena;
    struct error err;
};

static void put(int dir, const char *path, const char *text)
{
    int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ck_assert_msg(fd != -1, "%s", path);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static const char *get(struct tree *t, const char *path)
{
    struct str s = STR_NONE;
    int r = rootfs_read_file(t->root, path, &t->arena, &s);
    ck_assert_msg(r == 0, "%s: %d", path, r);
    return arena_strndup(&t->arena, s.ptr, s.len);
}

static bool tree_open(struct tree *t)
{
    if (geteuid() != 0) {
        ck_assert_msg(!getenv("MUST_WORK"), "needs root");
        printf("SKIP rootfs: needs root\n");
        return false;
    }
    memset(t, 0, sizeof(*t));
    snprintf(t->path, sizeof(t->path), "/tmp/cordium-rootfs-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(t->path));
    t->top = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(mkdirat(t->top, "root", 0755), 0);
    ck_assert_int_eq(mkdirat(t->top, "outside", 0755), 0);
    put(t->top, "outside/file", "untouched");
    t->root = openat(t->top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    arena_init(&t->arena, 1 << 22);
    return true;
}

static void tree_close(struct tree *t)
{
    char text[32] = "";
    ck_assert_int_gt(fd_read_file(t->top, "outside/file", text, sizeof(text)), 0);
    ck_assert_str_eq(text, "untouched");
    struct stat st;
    ck_assert_int_eq(fstatat(t->top, "outside", &st, 0), 0);
    ck_assert_uint_eq(st.st_nlink, 2); /* no directory was made there */
    arena_free(&t->arena);
    close(t->root);
    close(t->top);
    AUTO_FD int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(fd_remove_tree(tmp, strrchr(t->path, '/') + 1), 0);
}

static bool is_directory(struct tree *t, const char *path)
{
    struct stat st;
    return fstatat(t->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

START_TEST(mount_points_are_made_in_an_empty_tree)
{
    struct tree t;
    struct stat st;
    if (!tree_open(&t)) {
        return;
    }
    ck_assert_msg(rootfs_make_mount_points(t.root, &t.err) == 0, "%s", t.err.text);
    const char *const directories[] = {"dev", "proc",      "sys",         "run", "tmp",
                                       "var", "workspace", "opt/cordium", "etc", "var/tmp"};
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
        ck_assert_msg(is_directory(&t, directories[i]), "%s", directories[i]);
    }
    ck_assert_int_eq(fstatat(t.root, "etc/resolv.conf", &st, AT_SYMLINK_NOFOLLOW), 0);
    ck_assert(S_ISREG(st.st_mode));
    ck_assert_int_eq(rootfs_make_mount_points(t.root, &t.err), 0); /* again: nothing to do */
    tree_close(&t);
}
END_TEST

START_TEST(links_that_lead_out_become_directories)
{
    struct tree t;
    if (!tree_open(&t)) {
        return;
    }
    ck_assert_int_eq(symlinkat("../outside", t.root, "dev"), 0);
    ck_assert_int_eq(symlinkat("/../../outside", t.root, "proc"), 0);
    ck_assert_int_eq(symlinkat("../outside", t.root, "workspace"), 0);
    ck_assert_int_eq(mkdirat(t.root, "etc", 0755), 0);
    ck_assert_int_eq(symlinkat("../../outside/file", t.root, "etc/hosts"), 0);
    ck_assert_int_eq(symlinkat("../run/systemd/resolve/stub", t.root, "etc/resolv.conf"), 0);
    ck_assert_int_eq(mkdirat(t.root, "var", 0755), 0);
    ck_assert_int_eq(symlinkat("../../outside", t.root, "var/run"), 0);
    ck_assert_msg(rootfs_make_mount_points(t.root, &t.err) == 0, "%s", t.err.text);
    ck_assert(is_directory(&t, "dev") && is_directory(&t, "proc") && is_directory(&t, "workspace"));
    char target[32] = "";
    ck_assert_int_gt(readlinkat(t.root, "var/run", target, sizeof(target) - 1), 0);
    ck_assert_str_eq(target, "/run");
    ck_assert_str_eq(get(&t, "/etc/hosts"), "");
    tree_close(&t);
}
END_TEST

START_TEST(etc_that_is_a_link_is_refused_by_name)
{
    struct tree t;
    if (!tree_open(&t)) {
        return;
    }
    ck_assert_int_eq(symlinkat("../outside", t.root, "etc"), 0);
    ck_assert_int_eq(rootfs_make_mount_points(t.root, &t.err), -STATUS_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(t.err.text, "/etc"));
    tree_close(&t);
}
END_TEST

START_TEST(sweep_removes_devices_and_counts_each_inode_once)
{
    struct tree t;
    uint64_t bytes, files;
    if (!tree_open(&t)) {
        return;
    }
    char block[8192];
    memset(block, 'x', sizeof(block) - 1);
    block[sizeof(block) - 1] = 0;
    put(t.root, "a", block);
    ck_assert_int_eq(rootfs_sweep(t.root, &bytes, &files, &t.err), 0);
    ck_assert_uint_ge(bytes, 8192);
    uint64_t once = bytes;
    ck_assert_int_eq(linkat(t.root, "a", t.root, "b", 0), 0);
    ck_assert_int_eq(mkdirat(t.root, "run", 0755), 0);
    ck_assert_int_eq(symlinkat("../../outside", t.root, "run/cordium-build"), 0);
    ck_assert_int_eq(rootfs_sweep(t.root, &bytes, &files, &t.err), 0);
    ck_assert_uint_le(bytes, once + 4096);
    if (mknodat(t.root, "null", S_IFCHR | 0666, makedev(1, 3)) == 0) {
        ck_assert_int_eq(rootfs_sweep(t.root, &bytes, &files, &t.err), 0);
        ck_assert_int_eq(faccessat(t.root, "null", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    }
    tree_close(&t);
}
END_TEST

START_TEST(sweep_refuses_a_bottomless_tree)
{
    struct tree t;
    uint64_t bytes, files;
    if (!tree_open(&t)) {
        return;
    }
    int dir = dup(t.root);
    for (int i = 0; i < ROOTFS_DEPTH_MAX + 5; i++) {
        ck_assert_int_eq(mkdirat(dir, "d", 0755), 0);
        int next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(dir);
        dir = next;
    }
    close(dir);
    ck_assert_int_eq(rootfs_sweep(t.root, &bytes, &files, &t.err), -STATUS_RESOURCE_EXHAUSTED);
    tree_close(&t);
}
END_TEST

static void with_passwd(struct tree *t, const char *passwd)
{
    ck_assert_int_eq(rootfs_make_mount_points(t->root, &t->err), 0);
    put(t->root, "etc/passwd", passwd);
}

START_TEST(user_is_octelium_then_uid_1000_then_added)
{
    struct tree t;
    struct account a;
    struct stat st;
    if (!tree_open(&t)) {
        return;
    }
    with_passwd(&t,
                "root:x:0:0::/root:/bin/sh\nbad:x:1e3:0::/x:\nu:x:1000:1001::/home/u:/bin/none\n"
                "octelium:x:1234:1235::/home/o:\n");
    ck_assert_msg(account_choose(t.root, &t.arena, &a, &t.err) == 0, "%s", t.err.text);
    ck_assert_str_eq(a.user, "octelium");
    ck_assert_uint_eq(a.uid, 1234);
    ck_assert_str_eq(a.shell, "");
    put(t.root, "etc/passwd", "root:x:0:0::/root:/bin/sh\nu:x:1000:1001::/home/u:/bin/none\n");
    ck_assert_int_eq(account_choose(t.root, &t.arena, &a, &t.err), 0);
    ck_assert_str_eq(a.user, "u");
    ck_assert_uint_eq(a.gid, 1001);
    ck_assert_str_eq(a.home, "/home/u");
    ck_assert_int_eq(fstatat(t.root, "home/u", &st, 0), 0);
    ck_assert_uint_eq(st.st_uid, 1000);
    put(t.root, "etc/passwd", "root:x:0:0::/root:/bin/sh");
    put(t.root, "etc/group", "root:x:0:\nsome:x:1000:\n");
    put(t.root, "etc/shadow", "root:*:1::::::\n");
    ck_assert_int_eq(fchmodat(t.root, "etc/shadow", 0640, 0), 0);
    ck_assert_int_eq(fchownat(t.root, "etc/shadow", 0, 42, 0), 0);
    ck_assert_int_eq(account_choose(t.root, &t.arena, &a, &t.err), 0);
    ck_assert_str_eq(a.user, "octelium");
    ck_assert_str_eq(get(&t, "/etc/passwd"),
                     "root:x:0:0::/root:/bin/sh\noctelium:x:1000:1000::/home/octelium:/bin/sh\n");
    ck_assert_str_eq(get(&t, "/etc/group"), "root:x:0:\nsome:x:1000:\noctelium:x:1000:\n");
    ck_assert_int_eq(fstatat(t.root, "etc/shadow", &st, 0), 0);
    ck_assert_uint_eq(st.st_gid, 42);
    ck_assert_uint_eq(st.st_mode & 07777, 0640);
    tree_close(&t);
}
END_TEST

START_TEST(root_in_disguise_is_refused)
{
    struct tree t;
    struct account a;
    if (!tree_open(&t)) {
        return;
    }
    with_passwd(&t, "octelium:x:0:0::/home/o:/bin/sh\n");
    ck_assert_int_eq(account_choose(t.root, &t.arena, &a, &t.err), -STATUS_FAILED_PRECONDITION);
    put(t.root, "etc/passwd", "octelium:x:65534:1::/home/o:/bin/sh\n");
    ck_assert_int_eq(account_choose(t.root, &t.arena, &a, &t.err), -STATUS_FAILED_PRECONDITION);
    tree_close(&t);
}
END_TEST

START_TEST(homes_stay_inside_the_image)
{
    static const char *const homes[] = {"/",    "/proc/1", "relative", "/../../outside", "/tmp/x",
                                        "/dev", "",        "/etc/ssl", "/nonexistent"};
    struct tree t;
    struct account a;
    char line[128];
    if (!tree_open(&t)) {
        return;
    }
    for (size_t i = 0; i < sizeof(homes) / sizeof(homes[0]); i++) {
        snprintf(line, sizeof(line), "u:x:1000:1000::%s:/bin/sh\n", homes[i]);
        with_passwd(&t, line);
        ck_assert_msg(account_choose(t.root, &t.arena, &a, &t.err) == 0, "%s", t.err.text);
        ck_assert_str_eq(a.home, "/home/u1000");
    }
    with_passwd(&t, "u:x:1000:1000::/link/u:/bin/sh\n");
    ck_assert_int_eq(mkdirat(t.root, "srv", 0755), 0);
    ck_assert_int_eq(symlinkat("/srv", t.root, "link"), 0);
    ck_assert_int_eq(account_choose(t.root, &t.arena, &a, &t.err), 0);
    ck_assert_str_eq(a.home, "/srv/u"); /* the link is resolved, and within the image */
    ck_assert_int_eq(unlinkat(t.root, "link", 0), 0);
    ck_assert_int_eq(symlinkat("../../../../tmp", t.root, "link"), 0);
    ck_assert_int_eq(account_choose(t.root, &t.arena, &a, &t.err), 0);
    ck_assert_str_eq(a.home, "/home/u1000"); /* the image's own /tmp is hidden by a mount */
    tree_close(&t);
}
END_TEST

START_TEST(passwd_that_is_no_file_is_refused)
{
    struct tree t;
    struct account a;
    if (!tree_open(&t)) {
        return;
    }
    ck_assert_int_eq(rootfs_make_mount_points(t.root, &t.err), 0);
    ck_assert_int_eq(mkfifoat(t.root, "etc/passwd", 0644), 0); /* and does not block */
    ck_assert_int_eq(account_choose(t.root, &t.arena, &a, &t.err), -STATUS_FAILED_PRECONDITION);
    ck_assert_int_eq(unlinkat(t.root, "etc/passwd", 0), 0);
    ck_assert_int_eq(symlinkat("passwd", t.root, "etc/passwd"), 0);
    ck_assert_int_eq(account_choose(t.root, &t.arena, &a, &t.err), -STATUS_FAILED_PRECONDITION);
    tree_close(&t);
}
END_TEST

START_TEST(layers_merge_as_overlayfs_shows_them)
{
    struct tree t;
    struct layers layers = {.count = 2};
    char low[128], high[128];
    if (!tree_open(&t)) {
        return;
    }
    snprintf(low, sizeof(low), "%s/low", t.path);
    snprintf(high, sizeof(high), "%s/high", t.path);
    layers.directories[0] = high;
    layers.directories[1] = low;
    const char *const directories[] = {"low",       "low/keep", "low/opaque", "low/gone",
                                       "low/turns", "high",     "high/keep",  "high/opaque"};
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
        ck_assert_int_eq(mkdirat(t.top, directories[i], 0755), 0);
    }
    put(t.top, "low/keep/a", "low");
    put(t.top, "low/keep/b", "low");
    put(t.top, "low/opaque/a", "low");
    put(t.top, "low/gone/a", "low");
    put(t.top, "high/keep/b", "high");
    put(t.top, "high/opaque/new", "high");
    put(t.top, "high/turns", "a file now");
    ck_assert_int_eq(fchmodat(t.top, "high/keep", 0711, 0), 0);
    if (mknodat(t.top, "high/gone", S_IFCHR, makedev(0, 0)) != 0 ||
        setxattr(high, "trusted.overlay.test", "y", 1, 0) != 0) {
        printf("SKIP layers: no whiteouts or no trusted attributes here\n");
        tree_close(&t);
        return;
    }
    char opaque[160];
    snprintf(opaque, sizeof(opaque), "%s/opaque", high);
    ck_assert_int_eq(setxattr(opaque, "trusted.overlay.opaque", "y", 1, 0), 0);
    ck_assert_msg(layers_link(&layers, t.root, &t.err) == 0, "%s", t.err.text);
    ck_assert_str_eq(get(&t, "/keep/a"), "low");
    ck_assert_str_eq(get(&t, "/keep/b"), "high");
    ck_assert_str_eq(get(&t, "/opaque/new"), "high");
    ck_assert_str_eq(get(&t, "/turns"), "a file now");
    ck_assert_int_eq(faccessat(t.root, "opaque/a", F_OK, 0), -1);
    ck_assert_int_eq(faccessat(t.root, "gone", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    struct stat st;
    ck_assert_int_eq(fstatat(t.root, "keep", &st, 0), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0711);
    tree_close(&t);
}
END_TEST

Suite *suite_rootfs(void);

Suite *suite_rootfs(void)
{
    Suite *s = suite_create("rootfs");
    TCase *c = tcase_create("rootfs");
    tcase_add_test(c, mount_points_are_made_in_an_empty_tree);
    tcase_add_test(c, links_that_lead_out_become_directories);
    tcase_add_test(c, etc_that_is_a_link_is_refused_by_name);
    tcase_add_test(c, sweep_removes_devices_and_counts_each_inode_once);
    tcase_add_test(c, sweep_refuses_a_bottomless_tree);
    tcase_add_test(c, user_is_octelium_then_uid_1000_then_added);
    tcase_add_test(c, root_in_disguise_is_refused);
    tcase_add_test(c, homes_stay_inside_the_image);
    tcase_add_test(c, passwd_that_is_no_file_is_refused);
    tcase_add_test(c, layers_merge_as_overlayfs_shows_them);
    suite_add_tcase(s, c);
    return s;
}
