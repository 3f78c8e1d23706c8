#include "gateway/services/names.h"

#include <string.h>

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool name_is_label(struct str label)
{
    if (label.len < 2 || label.len > NAME_LABEL_MAX || !is_lower(label.ptr[0]) ||
        label.ptr[label.len - 1] == '-') {
        return false;
    }
    for (size_t i = 1; i < label.len; i++) {
        char c = label.ptr[i];
        if (!is_lower(c) && !is_digit(c) && c != '-') {
            return false;
        }
        if (c == '-' && label.ptr[i - 1] == '-') {
            return false;
        }
    }
    return true;
}

static int refuse(const char *kind, const char *name, struct error *err)
{
    if (!name || !name[0]) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The name of the %s is empty: set metadata.name, or name or uid", kind);
    }
    return error_set(err, STATUS_INVALID_ARGUMENT,
                     "Invalid %s name '%.140s': each part between dots takes 2 to %d characters "
                     "a-z, 0-9 and single '-', begins with a letter and does not end in '-'; the "
                     "whole is at most %d long",
                     kind, name, NAME_LABEL_MAX, NAME_MAX_LEN);
}

/* Number of labels, or 0 when one is not well-formed or the name is too long. */
static unsigned count_labels(const char *name)
{
    struct str rest = str_from(name);
    if (rest.len == 0 || rest.len > NAME_MAX_LEN) {
        return 0;
    }
    for (unsigned n = 1;; n++) {
        const char *dot = memchr(rest.ptr, '.', rest.len);
        size_t len = dot ? (size_t)(dot - rest.ptr) : rest.len;
        if (!name_is_label(str_make(rest.ptr, len))) {
            return 0;
        }
        if (!dot) {
            return n;
        }
        rest = str_make(dot + 1, rest.len - len - 1);
    }
}

int name_check_label(const char *kind, const char *name, struct error *err)
{
    return name_check_dotted(kind, name, 1, err);
}

int name_check_dotted(const char *kind, const char *name, unsigned max_labels, struct error *err)
{
    unsigned n = count_labels(name);
    if (n == 0) {
        return refuse(kind, name, err);
    }
    if (n > max_labels) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Invalid %s name '%s': it has %u parts between dots, at most %u are "
                         "allowed",
                         kind, name, n, max_labels);
    }
    return 0;
}

/* Joins with a dot and checks the length that comes out. */
static int join(const char *kind, const char *name, const char *parent, struct arena *arena,
                const char **ret_full, struct error *err)
{
    const char *full =
        parent[0] ? arena_printf(arena, "%s.%s", name, parent) : arena_strdup(arena, name);
    if (!full) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the name '%s'", name);
    }
    if (strlen(full) > NAME_MAX_LEN) {
        return refuse(kind, full, err);
    }
    *ret_full = full;
    return 0;
}

int name_find_space(const char *name, const char *user, struct arena *arena, const char **ret_full,
                    struct error *err)
{
    unsigned n = count_labels(name);
    if (n == 0) {
        return refuse("Space", name, err);
    }
    if (n > 2) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Invalid Space name '%s': write NAME, NAME.%s or NAME." NAME_ORGANIZATION,
                         name, user);
    }
    return join("Space", name, n == 1 ? user : "", arena, ret_full, err);
}

int name_complete_space(const char *name, const char *user, struct arena *arena,
                        const char **ret_full, bool *ret_is_organization, struct error *err)
{
    const char *full = NULL;
    int status = name_find_space(name, user, arena, &full, err);
    if (status) {
        return status;
    }
    const char *parent = name_parent(full);
    bool is_organization = strcmp(parent, NAME_ORGANIZATION) == 0;
    if (!is_organization && strcmp(parent, user) != 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Invalid Space name '%s': after the dot stands your own user name ('%s') "
                         "or '" NAME_ORGANIZATION "'",
                         full, user);
    }
    *ret_full = full;
    if (ret_is_organization) {
        *ret_is_organization = is_organization;
    }
    return 0;
}

int name_complete_in_space(const char *kind, const char *name, const char *user,
                           struct arena *arena, const char **ret_full, struct error *err)
{
    unsigned n = count_labels(name);
    if (n == 0) {
        return refuse(kind, name, err);
    }
    if (n > 3) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Invalid %s name '%s': write NAME, NAME.SPACE or NAME.SPACE.PARENT", kind,
                         name);
    }
    const char *end = "";
    if (n < 3) {
        end = n == 2 ? user : arena_printf(arena, NAME_DEFAULT_SPACE ".%s", user);
        if (!end) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for a name");
        }
    }
    return join(kind, name, end, arena, ret_full, err);
}

int name_complete_of_user(const char *kind, const char *name, const char *user, struct arena *arena,
                          const char **ret_full, struct error *err)
{
    unsigned n = count_labels(name);
    if (n == 0) {
        return refuse(kind, name, err);
    }
    if (n > 2) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Invalid %s name '%s': write NAME or NAME.%s", kind, name, user);
    }
    if (n == 2 && strcmp(name_parent(name), user) != 0) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "Invalid User in the %s name '%s': after the dot stands your own user "
                         "name ('%s')",
                         kind, name, user);
    }
    return join(kind, name, n == 1 ? user : "", arena, ret_full, err);
}

const char *name_parent(const char *full)
{
    const char *dot = strchr(full, '.');
    return dot ? dot + 1 : full + strlen(full);
}

const char *name_first_label(const char *full, struct arena *arena)
{
    return arena_strndup(arena, full, strcspn(full, "."));
}

int name_check_uid(const char *uid, struct error *err)
{
    /* xxxxxxxx-xxxx-4xxx-[89ab]xxx-xxxxxxxxxxxx (RFC 9562 section 5.4) */
    bool ok = uid && strlen(uid) == 36;
    for (size_t i = 0; ok && i < 36; i++) {
        char c = uid[i];
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            ok = c == '-';
        } else if (i == 14) {
            ok = c == '4';
        } else if (i == 19) {
            ok = strchr("89ab", c) != NULL;
        } else {
            ok = is_digit(c) || (c >= 'a' && c <= 'f');
        }
    }
    if (!ok) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Invalid UID '%.64s': a UUID of version 4 in lower case is needed",
                         uid ? uid : "");
    }
    return 0;
}
