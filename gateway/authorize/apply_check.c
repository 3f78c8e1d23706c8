#include "gateway/authorize/apply_check.h"

static bool stops_apply(const struct diagnostic *d)
{
    return cstr_eq(d->code, "expression-invalid") || cstr_eq(d->code, "policy-invalid") ||
           cstr_eq(d->code, "yaml-comment");
}

static const char *describe(const struct diagnostic *d, struct arena *arena)
{
    const char *text = arena_printf(arena, "line %u, column %u: %s%s%s%s%s [%s]", d->line,
                                    d->column, d->subject, d->subject[0] ? ": " : "", d->text,
                                    d->remedy[0] ? "; " : "", d->remedy, d->code);
    return text ? text : "out of memory";
}

int apply_check(struct str text, struct arena *arena, struct policy_files *files, struct error *err)
{
    int rc = policy_files_open(files, arena, err);
    if (rc) {
        return rc;
    }
    policy_files_add(files, "", text);
    policy_files_check(files, false);
    policy_files_close(files);
    return 0;
}

bool apply_check_errors(const struct policy_files *files, uint32_t line, struct arena *arena,
                        struct error *err)
{
    bool found = false;
    for (size_t i = 0; i < files->diagnostics.count; i++) {
        const struct diagnostic *d = &files->diagnostics.items[i];
        if (!stops_apply(d) || d->document_line != line) {
            continue;
        }
        if (!found) {
            (void)error_set_at(err, STATUS_INVALID_ARGUMENT, d->line, d->column, "%s",
                               describe(d, arena));
        } else {
            struct error first = *err;
            (void)error_set_at(err, STATUS_INVALID_ARGUMENT, first.line, first.column, "%s\n%s",
                               first.text, describe(d, arena));
        }
        found = true;
    }
    return found;
}

size_t apply_check_warnings(const struct policy_files *files, uint32_t line, struct arena *arena,
                            char ***ret)
{
    const struct diagnostics *all = &files->diagnostics;
    size_t count = 0;
    *ret = arena_calloc(arena, all->count, sizeof **ret);
    for (size_t i = 0; *ret && i < all->count; i++) {
        if (all->items[i].document_line == line) {
            (*ret)[count++] = (char *)(uintptr_t)describe(&all->items[i], arena);
        }
    }
    return count;
}
