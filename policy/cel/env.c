#include "policy/cel/env.h"

#include <stdlib.h>

enum { ENV_MEMORY_MAX = 16 << 20, NAME_BYTES_MAX = 1024 };

static const struct function_table *const tables[] = {
    &functions_operators,     &functions_conversions,    &functions_strings,
    &functions_strings_ext,   &functions_format,         &functions_time,
    &functions_math,          &functions_encoders,       &functions_lists,
    &functions_sets,          &functions_regex,          &functions_regex_ext,
    &functions_network,       &functions_optionals,      &functions_octelium,
    &functions_octelium_time, &functions_octelium_lists, &functions_octelium_net,
    &functions_json,
};

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "policy environment: out of memory");
}

static uint8_t kind_of_type(const struct type *t)
{
    static const uint8_t kinds[] = {
        [TYPE_DYN] = KIND_ANY,
        [TYPE_NULL] = POLICY_NULL,
        [TYPE_BOOL] = POLICY_BOOL,
        [TYPE_INT] = POLICY_INT,
        [TYPE_UINT] = POLICY_UINT,
        [TYPE_DOUBLE] = POLICY_DOUBLE,
        [TYPE_STRING] = POLICY_STRING,
        [TYPE_BYTES] = POLICY_BYTES,
        [TYPE_LIST] = POLICY_LIST,
        [TYPE_MAP] = POLICY_MAP,
        [TYPE_TYPE] = POLICY_TYPE,
        [TYPE_TIMESTAMP] = POLICY_TIMESTAMP,
        [TYPE_DURATION] = POLICY_DURATION,
        [TYPE_PARAM] = KIND_ANY,
    };
    if (t->kind != TYPE_ABSTRACT) {
        return kinds[t->kind];
    }
    if (type_is_optional(t)) {
        return POLICY_OPTIONAL;
    }
    return str_is(t->name, "net.IP")     ? POLICY_IP
           : str_is(t->name, "net.CIDR") ? POLICY_CIDR
                                         : KIND_ANY;
}

/* "A, B -> R" into o. */
static bool parse_signature(struct policy_env *env, struct str text, struct overload *o)
{
    const struct type *letters[26] = {NULL};
    if (!type_take(&text, "->")) {
        do {
            if (o->args_count == FUNCTION_ARGS_MAX) {
                return false;
            }
            const struct type *t = type_parse(&env->arena, &text, letters);
            if (!t) {
                return false;
            }
            o->kinds[o->args_count] = kind_of_type(t);
            o->params[o->args_count++] = t;
        } while (type_take(&text, ","));
        if (!type_take(&text, "->")) {
            return false;
        }
    }
    o->result = type_parse(&env->arena, &text, letters);
    return o->result && text.len == 0;
}

static int add_overload(struct policy_env *env, const char *name, unsigned flags,
                        const char *signature, function_impl *impl, struct error *err)
{
    const char *copy = arena_strdup(&env->arena, name);
    const char *text = arena_strdup(&env->arena, signature);
    struct overload *overloads = arena_grow(&env->arena, env->overloads, env->overloads_count,
                                            &env->overloads_room, sizeof *overloads, 64);
    if (!copy || !text || !overloads) {
        return no_memory(err);
    }
    env->overloads = overloads;
    struct overload *o = &overloads[env->overloads_count];
    *o = (struct overload){.name = str_from(copy), .flags = (uint8_t)flags, .impl = impl};
    if (!parse_signature(env, str_from(text), o)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "function '%s': the signature '%s' is not of the form 'int, list(T) -> T'",
                         name, signature);
    }
    env->overloads_count++;
    return 0;
}

static int compare_overloads(const struct overload *a, const struct overload *b)
{
    int order = str_cmp(a->name, b->name);
    if (order == 0) {
        order = (a->flags & FUNCTION_MEMBER) - (b->flags & FUNCTION_MEMBER);
    }
    return order ? order : a->args_count - b->args_count;
}

/* Insertion sort: stable, and done once for an env. */
static void sort_overloads(struct policy_env *env)
{
    for (size_t i = 1; i < env->overloads_count; i++) {
        struct overload moving = env->overloads[i];
        size_t k = i;
        for (; k > 0 && compare_overloads(&env->overloads[k - 1], &moving) > 0; k--) {
            env->overloads[k] = env->overloads[k - 1];
        }
        env->overloads[k] = moving;
    }
}

static int add_tables(struct policy_env *env, struct error *err)
{
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        if (tables[t]->library != 0 && !env_has(env, tables[t]->library)) {
            continue;
        }
        for (size_t i = 0; i < tables[t]->count; i++) {
            const struct function_row *row = &tables[t]->rows[i];
            int status = add_overload(env, row->name, row->flags, row->signature, row->impl, err);
            if (status) {
                return status;
            }
        }
    }
    sort_overloads(env);
    return 0;
}

struct policy_env *policy_env_new(unsigned libraries, struct error *err)
{
    struct policy_env *env = calloc(1, sizeof *env);
    if (!env) {
        (void)no_memory(err);
        return NULL;
    }
    env->libraries = libraries;
    arena_init(&env->arena, ENV_MEMORY_MAX);
    if (add_tables(env, err) || policy_env_declare(env, "ctx", "dyn", NULL, err) ||
        policy_env_declare(env, "attrs", "dyn", NULL, err)) {
        policy_env_free(env);
        return NULL;
    }
    return env;
}

void policy_env_free(struct policy_env *env)
{
    if (env) {
        arena_free(&env->arena);
        free(env);
    }
}

bool env_find_variable(const struct policy_env *env, struct str name, size_t *ret_index)
{
    for (size_t i = 0; i < env->variables_count; i++) {
        if (str_eq(env->variables[i].name, name)) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

const struct overload *env_find_function(const struct policy_env *env, struct str name, bool member,
                                         size_t *ret_count)
{
    const struct overload wanted = {.name = name, .flags = member ? FUNCTION_MEMBER : 0};
    size_t low = 0;
    size_t high = env->overloads_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_overloads(&env->overloads[middle], &wanted) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    size_t count = 0;
    while (low + count < env->overloads_count && str_eq(env->overloads[low + count].name, name) &&
           (env->overloads[low + count].flags & FUNCTION_MEMBER) == wanted.flags) {
        count++;
    }
    *ret_count = count;
    return count > 0 ? &env->overloads[low] : NULL;
}

int policy_env_declare(struct policy_env *env, const char *name, const char *type,
                       size_t *ret_index, struct error *err)
{
    const struct type *letters[26] = {NULL};
    const char *copy = arena_strdup(&env->arena, name);
    const char *text_copy = arena_strdup(&env->arena, type);
    if (!copy || !text_copy) {
        return no_memory(err);
    }
    struct str text = str_from(text_copy);
    const struct type *t = type_parse(&env->arena, &text, letters);
    bool is_generic = false;
    for (size_t i = 0; i < 26; i++) {
        is_generic = is_generic || letters[i];
    }
    if (!t || text.len != 0 || is_generic) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "variable '%s': '%s' is not a type", name,
                         type);
    }
    size_t index;
    if (!env_find_variable(env, str_from(name), &index)) {
        struct variable *variables = arena_grow(&env->arena, env->variables, env->variables_count,
                                                &env->variables_room, sizeof *variables, 64);
        if (!variables) {
            return no_memory(err);
        }
        env->variables = variables;
        index = env->variables_count++;
        variables[index].name = str_from(copy);
    }
    env->variables[index].type = t;
    if (ret_index) {
        *ret_index = index;
    }
    return 0;
}

int policy_env_declare_function(struct policy_env *env, const char *name, bool member,
                                const char *signature, struct error *err)
{
    int status = add_overload(env, name, member ? FUNCTION_MEMBER : 0, signature, NULL, err);
    if (status == 0) {
        sort_overloads(env);
    }
    return status;
}

int policy_env_disable_function(struct policy_env *env, const char *name, struct error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < env->overloads_count; i++) {
        if (!str_is(env->overloads[i].name, name)) {
            env->overloads[kept++] = env->overloads[i];
        }
    }
    if (kept == env->overloads_count) {
        return error_set(err, STATUS_NOT_FOUND, "there is no function '%s' to disable", name);
    }
    env->overloads_count = kept;
    return 0;
}

int policy_env_set_container(struct policy_env *env, const char *container, struct error *err)
{
    if (strlen(container) > NAME_BYTES_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "container name longer than %d bytes",
                         NAME_BYTES_MAX);
    }
    const char *copy = arena_strdup(&env->arena, container);
    if (!copy) {
        return no_memory(err);
    }
    env->container = str_from(copy);
    return 0;
}

/* Levenshtein distance, capped: 3 stands for "more than 2". */
static unsigned edit_distance(struct str a, struct str b)
{
    enum { LEN_MAX = 40, FAR = 3 };
    unsigned row[LEN_MAX + 1];
    if (a.len > LEN_MAX || b.len > LEN_MAX || a.len > b.len + 2 || b.len > a.len + 2) {
        return FAR;
    }
    for (size_t k = 0; k <= b.len; k++) {
        row[k] = (unsigned)k;
    }
    for (size_t i = 1; i <= a.len; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t k = 1; k <= b.len; k++) {
            unsigned above = row[k];
            unsigned best = diagonal + (a.ptr[i - 1] != b.ptr[k - 1]);
            best = above + 1 < best ? above + 1 : best;
            best = row[k - 1] + 1 < best ? row[k - 1] + 1 : best;
            row[k] = best;
            diagonal = above;
        }
    }
    return row[b.len] > FAR ? FAR : row[b.len];
}

struct str env_nearest_function(const struct policy_env *env, struct str name)
{
    struct str best = STR_NONE;
    unsigned best_distance = 3;
    for (size_t i = 0; i < env->overloads_count; i++) {
        unsigned distance = edit_distance(env->overloads[i].name, name);
        if (distance > 0 && distance < best_distance && distance * 2 < name.len) {
            best = env->overloads[i].name;
            best_distance = distance;
        }
    }
    return best;
}
