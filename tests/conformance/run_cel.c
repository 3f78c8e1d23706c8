/* Runs the public CEL conformance vectors: run_cel FOLDER [-v]
 *
 * Prints each failure, with -v the vectors that need protobuf message types by file and name, and
 * at the end how many passed. Ends with 1 when one failed, and when one of those that are out of
 * scope passes: then it is in scope, or the runner is wrong. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/conformance/vector_value.h"

enum { ARENA_BYTES = 16 << 20, FILES_MAX = 64, VARS_MAX = 32, FILE_BYTES_MAX = 8 << 20 };

struct totals {
    unsigned passed;
    unsigned failed;
    unsigned out_of_scope;
    unsigned unexpected;
    bool verbose;
};

/* One vector being run. */
struct run {
    const cJSON *test;
    struct policy_env *env;
    struct arena arena;
    struct policy_value vars[VARS_MAX];
    struct error err;
    char why[1200];
};

static const char *text_of(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static bool is_set(const cJSON *json, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, key));
}

static bool declare_function(struct run *r, const cJSON *entry, const cJSON *overload)
{
    struct buf b;
    const cJSON *param;
    bool first = true;
    buf_init(&b, 1000);
    cJSON_ArrayForEach(param, cJSON_GetObjectItemCaseSensitive(overload, "params"))
    {
        buf_printf(&b, "%s%s", first ? "" : ", ", text_of(param, "str"));
        first = false;
    }
    buf_printf(&b, " -> %s", text_of(cJSON_GetObjectItemCaseSensitive(overload, "result"), "str"));
    buf_add_u8(&b, 0);
    int status = policy_env_declare_function(
        r->env, text_of(entry, "name"), is_set(overload, "member"), (const char *)b.ptr, &r->err);
    buf_free(&b);
    return status == 0;
}

static bool declare_all(struct run *r)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(r->test, "type_env"))
    {
        const cJSON *ident = cJSON_GetObjectItemCaseSensitive(entry, "ident");
        const cJSON *overload;
        if (ident && policy_env_declare(r->env, text_of(entry, "name"), text_of(ident, "str"), NULL,
                                        &r->err)) {
            return false;
        }
        cJSON_ArrayForEach(overload, cJSON_GetObjectItemCaseSensitive(entry, "function"))
        {
            if (!declare_function(r, entry, overload)) {
                return false;
            }
        }
    }
    return policy_env_set_container(r->env, text_of(r->test, "container"), &r->err) == 0;
}

static bool is_declared(const struct run *r, const char *name)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(r->test, "type_env"))
    {
        if (cstr_eq(text_of(entry, "name"), name)) {
            return true;
        }
    }
    return false;
}

static const char *declared_type(const struct run *r, const char *name)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(r->test, "type_env"))
    {
        if (cstr_eq(text_of(entry, "name"), name)) {
            return text_of(cJSON_GetObjectItemCaseSensitive(entry, "ident"), "str");
        }
    }
    return "dyn";
}

/* Variables that are bound but not declared are dyn. */
static bool bind_all(struct run *r)
{
    const cJSON *binding;
    cJSON_ArrayForEach(binding, cJSON_GetObjectItemCaseSensitive(r->test, "bindings"))
    {
        size_t index;
        const char *type =
            is_declared(r, binding->string) ? declared_type(r, binding->string) : "dyn";
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(binding, "value");
        if (policy_env_declare(r->env, binding->string, type, &index, &r->err) ||
            index >= VARS_MAX || (value && !vector_value_make(value, &r->arena, &r->vars[index]))) {
            return false;
        }
    }
    return true;
}

static bool fail(struct run *r, const char *what, const char *detail)
{
    (void)snprintf(r->why, sizeof r->why, "%s %s", what, detail);
    return false;
}

static bool check_value(struct run *r, const cJSON *expected, struct policy_value v)
{
    if (vector_value_matches(expected, v, &r->arena)) {
        return true;
    }
    struct buf b;
    buf_init(&b, 1000);
    policy_value_print(v, 300, &b);
    buf_add_u8(&b, 0);
    (void)fail(r, "got", (const char *)b.ptr);
    buf_free(&b);
    return false;
}

static bool run_expression(struct run *r)
{
    const cJSON *expect = cJSON_GetObjectItemCaseSensitive(r->test, "expect");
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(expect, "error");
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(expect, "type");
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(expect, "value");
    const struct policy_program *program;
    struct policy_value v;
    struct str text = vector_text(r->test, "expr", &r->arena);
    bool unchecked = is_set(r->test, "disable_check");
    int status = unchecked ? policy_compile_unchecked(r->env, text, &r->arena, &program, &r->err)
                           : policy_compile(r->env, text, &r->arena, &program, &r->err);
    if (status) {
        return error ? true : fail(r, "does not compile:", r->err.text);
    }
    if (type && !cstr_eq(policy_program_type(program), text_of(type, "str"))) {
        return fail(r, "deduced type", policy_program_type(program));
    }
    if (is_set(r->test, "check_only")) {
        return error ? fail(r, "compiles, but an error was expected", "") : true;
    }
    const struct policy_input input = {.vars = r->vars, .vars_count = VARS_MAX};
    status = policy_eval(program, &input, &r->arena, &v, &r->err);
    if (status) {
        return error ? true : fail(r, policy_error_name(-status), r->err.text);
    }
    if (error) {
        return fail(r, "an error was expected", "");
    }
    return !value || check_value(r, value, v);
}

static bool run_vector(struct run *r)
{
    unsigned libraries = POLICY_LIBRARIES_ALL | POLICY_LIB_BLOCK;
    libraries |= is_set(r->test, "disable_macros") ? POLICY_NO_MACROS : 0;
    r->env = policy_env_new(libraries, &r->err);
    arena_init(&r->arena, ARENA_BYTES);
    bool ok = r->env && declare_all(r) && bind_all(r);
    ok = ok ? run_expression(r) : fail(r, "cannot be set up:", r->err.text);
    arena_free(&r->arena);
    policy_env_free(r->env);
    return ok;
}

static void report(const char *file, const cJSON *test, const char *verdict, const char *why)
{
    printf("%s %s/%s/%s %s\n  %s\n", verdict, file, text_of(test, "section"), text_of(test, "name"),
           why, text_of(test, "expr"));
}

static void run_one(const char *file, const cJSON *test, struct totals *totals)
{
    struct run r = {.test = test};
    bool needs_proto = is_set(test, "needs_proto");
    if (!needs_proto) {
        bool ok = run_vector(&r);
        totals->passed += ok;
        totals->failed += !ok;
        if (!ok) {
            report(file, test, "FAILED", r.why);
        }
        return;
    }
    totals->out_of_scope++;
    /* What expects an error passes for the wrong reason; anything else should not pass. */
    const cJSON *expect = cJSON_GetObjectItemCaseSensitive(test, "expect");
    bool passes = !cJSON_GetObjectItemCaseSensitive(expect, "error") && run_vector(&r);
    totals->unexpected += passes;
    if (totals->verbose || passes) {
        printf("%s %s/%s/%s\n", passes ? "UNEXPECTED pass:" : "out of scope:", file,
               text_of(test, "section"), text_of(test, "name"));
    }
}

static char *read_file(const char *folder, const char *name)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "rbe") : NULL;
    char *text = f ? calloc(1, FILE_BYTES_MAX + 1) : NULL;
    if (text && fread(text, 1, FILE_BYTES_MAX, f) == 0) {
        free(text);
        text = NULL;
    }
    if (f) {
        (void)fclose(f);
    }
    return text;
}

static bool run_file(const char *folder, const char *name, struct totals *totals)
{
    char *text = read_file(folder, name);
    if (text) {
        vector_hide_nul(text);
    }
    cJSON *array = text ? cJSON_Parse(text) : NULL;
    const cJSON *test;
    free(text);
    if (!cJSON_IsArray(array)) {
        (void)fprintf(stderr, "%s/%s is not a JSON array\n", folder, name);
        cJSON_Delete(array);
        return false;
    }
    cJSON_ArrayForEach(test, array)
    {
        run_one(name, test, totals);
    }
    cJSON_Delete(array);
    return true;
}

static int is_vector_file(const struct dirent *entry)
{
    return str_ends_with(str_from(entry->d_name), STR(".json"));
}

int main(int argc, char **argv)
{
    struct totals totals = {.verbose = argc > 2 && cstr_eq(argv[2], "-v")};
    struct dirent **files = NULL;
    if (argc < 2) {
        (void)fprintf(stderr, "usage: run_cel FOLDER [-v]\n");
        return 2;
    }
    int count = scandir(argv[1], &files, is_vector_file, alphasort);
    if (count <= 0) {
        printf("skipped: no vectors in %s\n0 passed, 0 failed, 1 skipped\n", argv[1]);
        return getenv("MUST_WORK") ? 1 : 0;
    }
    bool ok = true;
    for (int i = 0; i < count; i++) {
        ok = run_file(argv[1], files[i]->d_name, &totals) && ok;
        free(files[i]);
    }
    free(files);
    printf("%u need protobuf messages and are out of scope, of which %u pass\n",
           totals.out_of_scope, totals.unexpected);
    printf("%u passed, %u failed\n", totals.passed, totals.failed);
    return ok && totals.failed == 0 && totals.unexpected == 0 ? 0 : 1;
}
