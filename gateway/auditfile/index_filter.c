#include "gateway/auditfile/index_filter.h"

static bool clause_holds(const struct index_clause *c, const uint64_t values[INDEX_COLUMN_COUNT])
{
    for (size_t i = 0; i < c->column_count; i++) {
        for (size_t k = 0; k < c->value_count; k++) {
            if (values[c->columns[i]] == c->values[k]) {
                return true;
            }
        }
    }
    return false;
}

static bool members_hold(const struct index_filter *f, const uint64_t values[INDEX_COLUMN_COUNT],
                         struct str line)
{
    for (size_t i = 0; i < f->clause_count; i++) {
        if (!clause_holds(&f->clauses[i], values)) {
            return false;
        }
    }
    int64_t time_ns = (int64_t)values[INDEX_TIME];
    return (!f->has_time || (f->time_from <= time_ns && time_ns < f->time_to)) &&
           (f->text.len == 0 || memmem(line.ptr, line.len, f->text.ptr, f->text.len));
}

bool index_filter_accepts(const struct index_filter *f, const uint64_t values[INDEX_COLUMN_COUNT],
                          struct str line)
{
    for (size_t i = 0; i < f->except_count; i++) {
        if (members_hold(&f->except[i], values, line)) {
            return false;
        }
    }
    return members_hold(f, values, line);
}

bool index_filter_has_text(const struct index_filter *f)
{
    for (size_t i = 0; i < f->except_count; i++) {
        if (f->except[i].text.len > 0) {
            return true;
        }
    }
    return f->text.len > 0;
}

bool index_filter_is_empty(const struct index_filter *f)
{
    return f->clause_count == 0 && !f->has_time && f->text.len == 0 && f->except_count == 0;
}
