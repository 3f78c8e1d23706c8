#include <check.h>
#include <stdlib.h>

#include "policy/policy.h"

Suite *suite_shared_paths(void);

/* A map of the caller that counts how often it is asked; its members are maps of the same kind. */
struct counting_map {
    struct policy_map map;
    const struct policy_map *inner;
    size_t *asked;
};

static const struct policy_map_ops counting_ops;

static size_t counting_size(const struct policy_map *self)
{
    return policy_map_size(((const struct counting_map *)(const void *)self)->inner);
}

static struct policy_value counting_get(const struct policy_map *self, struct policy_value key,
                                        struct arena *arena)
{
    const struct counting_map *m = (const struct counting_map *)(const void *)self;
    struct policy_value v = m->inner->ops->get(m->inner, key, arena);
    ++*m->asked;
    if (v.kind == POLICY_MAP) {
        struct counting_map *below = arena_alloc(arena, sizeof *below);
        ck_assert_ptr_nonnull(below);
        *below = (struct counting_map){{&counting_ops}, v.as.map, m->asked};
        return policy_map(&below->map);
    }
    return v;
}

static int counting_next(const struct policy_map *self, size_t *cursor, struct arena *arena,
                         struct policy_value *ret_key, struct policy_value *ret_value)
{
    return policy_map_next(((const struct counting_map *)(const void *)self)->inner, cursor, arena,
                           ret_key, ret_value);
}

static const struct policy_map_ops counting_ops = {counting_size, counting_get, counting_next};

static const struct {
    const char *expression;
    const char *value; /* as it is printed, or the name of the error */
    size_t asked;
} cases[] = {
    {"ctx.a.b.c == 'x' && ctx.a.b.d == 'y'", "true", 4},
    {"ctx.a.b.c == 'x' && ctx.a.b.c == 'x'", "true", 3},
    {"'b' in ctx.a && 'c' in ctx.a.b && ctx.a.b.c == 'x'", "true", 5},
    {"has(ctx.a.b.c) && has(ctx.a.b.d) && has(ctx.a.e)", "true", 5},
    {"ctx.a.gone.c == 'x' || ctx.a.b.c == 'x'", "true", 4},
    {"ctx.a.gone.c == 'x' || ctx.a.gone.d == 'x'", "no_such_key", 4},
    {"ctx.a.e.f == 'x' || ctx.a.e.g == 'x' || ctx.a.e == 'z'", "true", 2},
    {"[ctx.a.b.c, ctx.a.b.d, ctx.a.e, ctx.a.b.c]", "[\"x\", \"y\", \"z\", \"x\"]", 5},
    {"['c', 'd'].map(k, ctx.a.b[k] + ctx.a.b.c)", "[\"xx\", \"yx\"]", 6},
    {"['c'].exists(ctx, ctx == 'c') && ctx.a.e == 'z'", "true", 2},
    {"ctx.a.b.c == attrs.a.b.c || ctx.a.b.d == attrs.a.b.d", "true", 4},
};

START_TEST(what_paths_share_is_looked_up_once)
{
    struct error err;
    struct arena arena;
    struct arena eval_arena;
    size_t asked = 0;
    const struct policy_program *program;
    struct policy_value v;
    struct policy_value vars[2];
    arena_init(&arena, 1 << 20);
    arena_init(&eval_arena, 1 << 20);
    struct policy_env *env = policy_env_new(POLICY_LIBRARIES_ALL, &err);
    struct str ctx = STR("{\"a\": {\"b\": {\"c\": \"x\", \"d\": \"y\"}, \"e\": \"z\"}}");
    struct str attrs = STR("{\"a\": {\"b\": {\"c\": \"no\", \"d\": \"y\"}}}");
    ck_assert_int_eq(policy_value_from_json(ctx, &arena, &vars[POLICY_VAR_CTX], &err), 0);
    ck_assert_int_eq(policy_value_from_json(attrs, &arena, &vars[POLICY_VAR_ATTRS], &err), 0);
    struct counting_map top = {{&counting_ops}, vars[POLICY_VAR_CTX].as.map, &asked};
    vars[POLICY_VAR_CTX] = policy_map(&top.map);
    ck_assert_msg(policy_compile(env, str_from(cases[_i].expression), &arena, &program, &err) == 0,
                  "%s", err.text);
    struct policy_input input = {.vars = vars, .vars_count = 2};
    struct buf b;
    buf_init(&b, 1000);
    int code = -policy_eval(program, &input, &eval_arena, &v, &err);
    if (code) {
        buf_add_cstr(&b, policy_error_name(code));
    } else {
        policy_value_print(v, 900, &b);
    }
    ck_assert_msg(str_is(str_make(b.ptr, b.len), cases[_i].value), "%s: %.*s", cases[_i].expression,
                  (int)b.len, (const char *)b.ptr);
    ck_assert_msg(asked == cases[_i].asked, "%s: asked %zu times", cases[_i].expression, asked);
    buf_free(&b);
    policy_env_free(env);
    arena_free(&eval_arena);
    arena_free(&arena);
}
END_TEST

Suite *suite_shared_paths(void)
{
    Suite *s = suite_create("shared_paths");
    TCase *t = tcase_create("paths");
    tcase_add_loop_test(t, what_paths_share_is_looked_up_once, 0, sizeof cases / sizeof cases[0]);
    suite_add_tcase(s, t);
    return s;
}
