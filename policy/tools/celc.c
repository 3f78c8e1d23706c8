/* celc: compiles, evaluates and explains CEL expressions.
 *
 *     celc eval EXPR [--json FILE] [--attrs FILE] [--trace]   value of EXPR; ctx is the JSON file
 *     celc check EXPR                                         type of EXPR, or what is wrong
 *     celc explain EXPR                                       the plan
 *     celc bench EXPR [--json FILE]                           nanoseconds per evaluation
 *
 * EXPR "-" is read from standard input. Exit codes: 0 fine, 1 EXPR does not compile, 2 it failed
 * when evaluated, 3 usage or unreadable file. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "policy/policy.h"

enum {
    EXIT_COMPILE = 1,
    EXIT_EVALUATE = 2,
    EXIT_USAGE = 3,
    INPUT_BYTES_MAX = 16 << 20,
    ARENA_BYTES = 64 << 20,
    PRINT_BYTES_MAX = 1 << 20,
    BENCH_TURNS = 1000000,
    BENCH_BUFFER_BYTES = 16384,
};

struct options {
    const char *command;
    const char *expression;
    const char *ctx_path;
    const char *attrs_path;
    bool trace;
};

static int usage(void)
{
    (void)fprintf(stderr, "usage: celc eval|check|explain|bench EXPR [--json FILE] "
                          "[--attrs FILE] [--trace]\n");
    return EXIT_USAGE;
}

static bool parse_options(int argc, char **argv, struct options *ret)
{
    if (argc < 3) {
        return false;
    }
    *ret = (struct options){.command = argv[1], .expression = argv[2]};
    for (int i = 3; i < argc; i++) {
        if (cstr_eq(argv[i], "--trace")) {
            ret->trace = true;
        } else if (cstr_eq(argv[i], "--json") && i + 1 < argc) {
            ret->ctx_path = argv[++i];
        } else if (cstr_eq(argv[i], "--attrs") && i + 1 < argc) {
            ret->attrs_path = argv[++i];
        } else {
            return false;
        }
    }
    return true;
}

/* A whole file, or standard input for "-"; false after a message. */
static bool read_input(const char *path, struct arena *arena, struct str *ret)
{
    bool is_stdin = cstr_eq(path, "-");
    FILE *f = is_stdin ? stdin : fopen(path, "rbe");
    char *text = arena_alloc(arena, INPUT_BYTES_MAX + 1);
    if (!f || !text) {
        (void)fprintf(stderr, "celc: cannot read '%s'\n", path);
        return false;
    }
    size_t len = fread(text, 1, INPUT_BYTES_MAX + 1, f);
    bool ok = !ferror(f) && len <= INPUT_BYTES_MAX;
    if (!is_stdin) {
        (void)fclose(f);
    }
    if (!ok) {
        (void)fprintf(stderr, "celc: '%s' is unreadable or larger than 16 MiB\n", path);
    }
    *ret = str_make(text, len);
    return ok;
}

static bool read_json(const char *path, struct arena *arena, struct policy_value *ret)
{
    struct str text;
    struct error err = {0};
    if (!path) {
        *ret = policy_absent();
        return true;
    }
    if (!read_input(path, arena, &text)) {
        return false;
    }
    if (policy_value_from_json(text, arena, ret, &err)) {
        (void)fprintf(stderr, "celc: %s: %s\n", path, err.text);
        return false;
    }
    return true;
}

static void print_value(struct policy_value v)
{
    struct buf b;
    buf_init(&b, PRINT_BYTES_MAX + 64);
    policy_value_print(v, PRINT_BYTES_MAX, &b);
    printf("%.*s\n", (int)b.len, (const char *)b.ptr);
    buf_free(&b);
}

static void print_step(void *context, const struct policy_trace_step *step)
{
    const struct policy_program *program = context;
    struct str text = policy_program_text(program);
    struct buf b;
    buf_init(&b, 400);
    if (step->code) {
        buf_printf(&b, "error %s", policy_error_name(step->code));
    } else {
        policy_value_print(step->value, 200, &b);
    }
    printf("%5u  %.*s  =>  %.*s\n", step->begin, (int)(step->end - step->begin),
           text.ptr + step->begin, (int)b.len, (const char *)b.ptr);
    buf_free(&b);
}

static uint64_t clock_ns(void *context)
{
    (void)context;
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static int evaluate(const struct policy_program *program, const struct policy_input *input,
                    struct arena *arena)
{
    struct policy_value v;
    struct error err = {0};
    int code = policy_eval(program, input, arena, &v, &err);
    if (code) {
        (void)fprintf(stderr, "celc: %s at %u:%u: %s\n", policy_error_name(-code), err.line,
                      err.column, err.text);
        return EXIT_EVALUATE;
    }
    print_value(v);
    return 0;
}

static int bench(const struct policy_program *program, const struct policy_input *input)
{
    _Alignas(16) char memory[BENCH_BUFFER_BYTES];
    struct arena arena;
    struct policy_value v;
    arena_init_with(&arena, memory, sizeof memory, ARENA_BYTES);
    uint64_t begin = clock_ns(NULL);
    for (int i = 0; i < BENCH_TURNS; i++) {
        (void)policy_eval(program, input, &arena, &v, NULL);
        arena_reset(&arena);
    }
    uint64_t end = clock_ns(NULL);
    printf("%.1f ns\n", (double)(end - begin) / BENCH_TURNS);
    arena_free(&arena);
    return 0;
}

static int explain(const struct policy_program *program)
{
    struct buf b;
    buf_init(&b, PRINT_BYTES_MAX);
    policy_program_explain(program, &b);
    printf("%.*s", (int)b.len, (const char *)b.ptr);
    buf_free(&b);
    return 0;
}

static int run_program(const struct options *o, const struct policy_program *program,
                       struct arena *arena)
{
    struct policy_value vars[POLICY_VAR_FIRST_DECLARED];
    struct policy_input input = {.vars = vars, .vars_count = POLICY_VAR_FIRST_DECLARED};
    input.now = policy_timestamp(time(NULL), 0);
    if (o->trace) {
        input.trace = print_step;
        input.trace_context = (void *)(uintptr_t)program;
    }
    if (cstr_eq(o->command, "check")) {
        printf("%s\n", policy_program_type(program));
        return 0;
    }
    if (cstr_eq(o->command, "explain")) {
        return explain(program);
    }
    if (!read_json(o->ctx_path, arena, &vars[POLICY_VAR_CTX]) ||
        !read_json(o->attrs_path, arena, &vars[POLICY_VAR_ATTRS])) {
        return EXIT_USAGE;
    }
    if (cstr_eq(o->command, "bench")) {
        return bench(program, &input);
    }
    return cstr_eq(o->command, "eval") ? evaluate(program, &input, arena) : usage();
}

static int compile_and_run(const struct options *o, const struct policy_env *env,
                           struct arena *arena)
{
    struct error err = {0};
    const struct policy_program *program;
    struct str text = str_from(o->expression);
    if (cstr_eq(o->expression, "-") && !read_input("-", arena, &text)) {
        return EXIT_USAGE;
    }
    if (policy_compile(env, text, arena, &program, &err)) {
        (void)fprintf(stderr, "celc: %u:%u: %s\n", err.line, err.column, err.text);
        return EXIT_COMPILE;
    }
    return run_program(o, program, arena);
}

int main(int argc, char **argv)
{
    struct options o;
    struct error err = {0};
    struct arena arena;
    if (!parse_options(argc, argv, &o)) {
        return usage();
    }
    struct policy_env *env = policy_env_new(POLICY_LIBRARIES_ALL, &err);
    if (!env) {
        (void)fprintf(stderr, "celc: %s\n", err.text);
        return EXIT_USAGE;
    }
    arena_init(&arena, ARENA_BYTES);
    int status = compile_and_run(&o, env, &arena);
    arena_free(&arena);
    policy_env_free(env);
    return status;
}
