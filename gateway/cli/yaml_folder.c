#include "gateway/cli/yaml_folder.h"

#include <errno.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>

#include "gateway/cli/local_file.h"
#include "policy/base/bytes.h"

static int compare(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool is_yaml(const char *name)
{
    struct str s = str_from(name);
    return str_ends_with(s, STR(".yaml")) || str_ends_with(s, STR(".yml"));
}

/* A link to a file, or to nothing: then reading it tells so. */
static bool leads_to_file(const FTSENT *e)
{
    struct stat st;
    return e->fts_info == FTS_SL && (stat(e->fts_accpath, &st) != 0 || S_ISREG(st.st_mode));
}

/* The next YAML file of a walk, also through a link: 1, 0 at the end, or a negative status. */
static int next_file(FTS *walk, struct arena *arena, const char **ret_path, struct str *ret,
                     struct error *err)
{
    FTSENT *e;
    while ((e = fts_read(walk))) {
        if (e->fts_info == FTS_ERR || e->fts_info == FTS_DNR) {
            return error_set_errno(err, STATUS_INVALID_ARGUMENT, e->fts_errno, "cannot read '%s'",
                                   e->fts_path);
        }
        if (is_yaml(e->fts_name) && (e->fts_info == FTS_F || leads_to_file(e))) {
            *ret_path = arena_strdup(arena, e->fts_path);
            if (!*ret_path) {
                return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
            }
            int rc = local_file_read(e->fts_accpath, arena, ret, err);
            return rc ? rc : 1;
        }
    }
    return 0;
}

/* A folder without policies is a mistake in its name more often than not. */
static int fail_empty(const char *path, struct error *err)
{
    return error_set(err, STATUS_NOT_FOUND, "no file below '%s' ends in .yaml or .yml", path);
}

static int add_files(FTS *walk, const char *folder, struct buf *all, struct arena *arena,
                     struct error *err)
{
    const char *path;
    struct str text;
    size_t count = 0;
    int rc;
    while ((rc = next_file(walk, arena, &path, &text, err)) == 1) {
        buf_printf(all, "---\n# %s\n", path);
        buf_add_str(all, text);
        buf_add_u8(all, '\n');
        count++;
    }
    return rc == 0 && count == 0 ? fail_empty(folder, err) : rc;
}

static int read_folder(const char *path, struct arena *arena, struct str *ret, struct error *err)
{
    char *paths[] = {(char *)(uintptr_t)path, NULL};
    FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, compare);
    if (!walk) {
        return error_set_errno(err, STATUS_INVALID_ARGUMENT, errno, "cannot open '%s'", path);
    }
    struct buf all;
    buf_init(&all, LOCAL_FILE_MAX_BYTES);
    int status = add_files(walk, path, &all, arena, err);
    (void)fts_close(walk);
    if (status == 0 && all.failed) {
        status = error_set(err, STATUS_INVALID_ARGUMENT, "'%s': more than %d bytes of YAML", path,
                           LOCAL_FILE_MAX_BYTES);
    }
    if (status == 0) {
        char *copy = arena_strndup(arena, (const char *)all.ptr, all.len);
        status = copy ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
        *ret = str_make(copy, all.len);
    }
    buf_free(&all);
    return status;
}

int yaml_folder_read(const char *path, struct arena *arena, struct str *ret, struct error *err)
{
    struct stat st;
    if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        return read_folder(path, arena, ret, err);
    }
    return local_file_read(path, arena, ret, err);
}

int yaml_folder_visit(const char *path,
                      int (*visit)(void *arg, const char *path, struct str text, struct error *err),
                      void *arg, struct arena *arena, struct error *err)
{
    struct stat st;
    struct str text;
    if (strcmp(path, "-") == 0 || stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        int rc = local_file_read(path, arena, &text, err);
        return rc ? rc : visit(arg, path, text, err);
    }
    char *paths[] = {(char *)(uintptr_t)path, NULL};
    FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, compare);
    if (!walk) {
        return error_set_errno(err, STATUS_INVALID_ARGUMENT, errno, "cannot open '%s'", path);
    }
    const char *file = path;
    size_t count = 0;
    int rc;
    while ((rc = next_file(walk, arena, &file, &text, err)) == 1) {
        count++;
        rc = visit(arg, file, text, err);
        if (rc) {
            break;
        }
    }
    (void)fts_close(walk);
    return rc == 0 && count == 0 ? fail_empty(path, err) : rc;
}
