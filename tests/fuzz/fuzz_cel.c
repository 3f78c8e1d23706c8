/* Lexer, parser, checker, planner and evaluator on arbitrary text: nothing may crash, hang or
 * leave its limits. A first line "JSON\n" in braces becomes ctx. */
#include <stdint.h>
#include <stdlib.h>

#include "policy/policy.h"

enum { COMPILE_BYTES = 4 << 20, EVAL_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void evaluate(const struct policy_program *program, const struct policy_value *ctx)
{
    struct arena arena;
    struct policy_value v;
    struct error err = {0};
    struct buf b;
    const struct policy_input input = {.vars = ctx,
                                       .vars_count = 1,
                                       .now = policy_timestamp(1714564800, 0),
                                       .cost_max = 100000,
                                       .iterations_max = 10000};
    arena_init(&arena, EVAL_BYTES);
    buf_init(&b, 2000);
    if (policy_eval(program, &input, &arena, &v, &err) == 0) {
        policy_value_print(v, 1000, &b);
    }
    buf_clear(&b);
    policy_program_explain(program, &b);
    buf_free(&b);
    arena_free(&arena);
}

/* Takes a leading line of JSON off the text. */
static struct policy_value take_ctx(struct str *text, struct arena *arena)
{
    struct policy_value ctx = policy_absent();
    const char *end =
        text->len > 0 && text->ptr[0] == '{' ? memchr(text->ptr, '\n', text->len) : NULL;
    if (end) {
        size_t len = (size_t)(end - text->ptr);
        if (policy_value_from_json(str_make(text->ptr, len), arena, &ctx, NULL) == 0) {
            *text = str_make(end + 1, text->len - len - 1);
        }
    }
    return ctx;
}

/* Made once, since it never changes; libFuzzer has no place to hand it through. */
static const struct policy_env *shared_env(void)
{
    static const struct policy_env *env;
    if (!env) {
        env = policy_env_new(POLICY_LIBRARIES_ALL | POLICY_LIB_BLOCK, NULL);
    }
    if (!env) {
        abort();
    }
    return env;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct error err = {0};
    const struct policy_program *program;
    struct str text = str_make(data, size);
    const struct policy_env *env = shared_env();
    arena_init(&arena, COMPILE_BYTES);
    struct policy_value ctx = take_ctx(&text, &arena);
    if (policy_compile(env, text, &arena, &program, &err) == 0) {
        evaluate(program, &ctx);
    }
    if (policy_compile_unchecked(env, text, &arena, &program, &err) == 0) {
        evaluate(program, &ctx);
    }
    arena_free(&arena);
    return 0;
}
