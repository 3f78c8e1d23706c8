#include "policy/policy.h"

#include <stdarg.h>
#include <stdio.h>

#include "policy/cel/env.h"
#include "policy/cel/program.h"

enum { CARET_LINE_BYTES_MAX = 160 };

/* Line and column (in characters) of an offset, and where the line starts. */
static uint32_t locate(struct str text, uint32_t at, uint32_t *ret_line, uint32_t *ret_column)
{
    uint32_t line = 1;
    uint32_t start = 0;
    uint32_t column = 1;
    for (uint32_t i = 0; i < at && i < text.len; i++) {
        if (text.ptr[i] == '\n') {
            line++;
            start = i + 1;
            column = 1;
        } else if (((unsigned char)text.ptr[i] & 0xC0) != 0x80) {
            column++;
        }
    }
    *ret_line = line;
    *ret_column = column;
    return start;
}

/* "\n | source line\n | .....^" behind the message, for lines of sensible length. */
static void append_caret(struct error *err, struct str text, uint32_t start, uint32_t at)
{
    uint32_t end = start;
    while (end < text.len && text.ptr[end] != '\n' && text.ptr[end] != '\r') {
        end++;
    }
    size_t used = strlen(err->text);
    size_t left = sizeof err->text - used;
    size_t line_len = end - start;
    if (line_len > CARET_LINE_BYTES_MAX || line_len * 2 + 16 > left) {
        return;
    }
    char *out = err->text + used;
    int n = snprintf(out, left, "\n | %.*s\n | ", (int)line_len, text.ptr + start);
    out += n;
    for (uint32_t i = start; i < at && i < end; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((c & 0xC0) != 0x80) {
            *out++ = c == '\t' ? '\t' : '.';
        }
    }
    *out++ = '^';
    *out = '\0';
}

static int fail_at(struct compile *c, int status, uint32_t at, const char *format, va_list ap)
    __attribute__((format(printf, 4, 0)));

static int fail_at(struct compile *c, int status, uint32_t at, const char *format, va_list ap)
{
    if (c->status) {
        return c->status;
    }
    c->status = -status;
    if (!c->err) {
        return c->status;
    }
    uint32_t line;
    uint32_t column;
    uint32_t start = locate(c->text, at, &line, &column);
    (void)error_vset(c->err, status, format, ap);
    c->err->line = line;
    c->err->column = column;
    append_caret(c->err, c->text, start, at);
    return c->status;
}

int compile_fail_status(struct compile *c, int status, uint32_t at, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int result = fail_at(c, status, at, format, ap);
    va_end(ap);
    return result;
}

void *compile_fail(struct compile *c, uint32_t at, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)fail_at(c, STATUS_INVALID_ARGUMENT, at, format, ap);
    va_end(ap);
    return NULL;
}

void *compile_out_of_memory(struct compile *c)
{
    (void)compile_fail_status(c, STATUS_RESOURCE_EXHAUSTED, 0,
                              "expression needs more memory than a compilation may use");
    return NULL;
}

struct ast *ast_new(struct compile *c, enum ast_kind kind, uint32_t at)
{
    struct ast *node = arena_zalloc(c->arena, sizeof *node);
    if (!node) {
        return compile_out_of_memory(c);
    }
    node->kind = (uint8_t)kind;
    node->at = at;
    node->begin = at;
    node->end = at;
    return node;
}

bool ast_vec_add(struct compile *c, struct ast_vec *vec, struct ast *item)
{
    struct ast **grown =
        arena_grow(c->arena, vec->items, vec->count, &vec->room, sizeof(struct ast *), 4);
    if (!grown) {
        compile_out_of_memory(c);
        return false;
    }
    vec->items = grown;
    vec->items[vec->count++] = item;
    return true;
}

/* A chain (a.b.c, a + b + c) is walked by loops: its links cost no depth. */
static unsigned depth_below(const struct ast *parent, const struct ast *child, bool is_spine)
{
    if (!child) {
        return 0;
    }
    return is_spine && child->kind == parent->kind ? child->depth : child->depth + 1U;
}

struct ast *ast_finish(struct compile *c, struct ast *node)
{
    unsigned depth = depth_below(node, node->target, node->kind == AST_SELECT);
    for (size_t i = 0; i < node->args_count; i++) {
        unsigned below = depth_below(node, node->args[i], node->kind == AST_BINARY && i == 0);
        depth = below > depth ? below : depth;
    }
    unsigned filter = depth_below(node, node->filter, false);
    unsigned body = depth_below(node, node->body, false);
    depth = filter > depth ? filter : depth;
    depth = body > depth ? body : depth;
    if (depth > POLICY_DEPTH_MAX) {
        return compile_fail(c, node->at, "expression nested deeper than %d levels",
                            POLICY_DEPTH_MAX);
    }
    node->depth = (uint16_t)depth;
    return node;
}

static const struct {
    const char *text;
    const char *function;
} operators[OP_COUNT] = {
    [OP_NONE] = {"", ""},      [OP_NOT] = {"!", "!_"},   [OP_NEGATE] = {"-", "-_"},
    [OP_AND] = {"&&", "_&&_"}, [OP_OR] = {"||", "_||_"}, [OP_ADD] = {"+", "_+_"},
    [OP_SUB] = {"-", "_-_"},   [OP_MUL] = {"*", "_*_"},  [OP_DIV] = {"/", "_/_"},
    [OP_MOD] = {"%", "_%_"},   [OP_EQ] = {"==", "_==_"}, [OP_NE] = {"!=", "_!=_"},
    [OP_LT] = {"<", "_<_"},    [OP_LE] = {"<=", "_<=_"}, [OP_GT] = {">", "_>_"},
    [OP_GE] = {">=", "_>=_"},  [OP_IN] = {"in", "@in"},
};

const char *ast_op_text(uint8_t op)
{
    return operators[op].text;
}

const char *ast_op_function(uint8_t op)
{
    return operators[op].function;
}

/* "list(int)" in the arena. */
static const char *type_text(struct compile *c, const struct type *t)
{
    struct buf b;
    buf_init(&b, 4096);
    type_print(t, &b);
    const char *text = arena_strndup(c->arena, (const char *)b.ptr, b.len);
    buf_free(&b);
    return text;
}

static int compile(const struct policy_env *env, struct str text, struct arena *arena, bool checked,
                   const struct policy_program **ret_program, struct error *err)
{
    struct compile c = {.env = env, .arena = arena, .err = err, .types = {.arena = arena}};
    const char *copy = arena_strndup(arena, text.ptr ? text.ptr : "", text.len);
    struct policy_program *program = arena_zalloc(arena, sizeof *program);
    if (!copy || !program) {
        compile_out_of_memory(&c);
        return c.status;
    }
    c.text = str_make(copy, text.len);
    struct ast *root = parse_expression(&c);
    if (!root || !resolve_names(&c, &root, checked) || (checked && !check_types(&c, root))) {
        return c.status;
    }
    const struct type *type = checked ? root->type : type_simple(TYPE_DYN);
    type = type_resolve(arena, type, true);
    *program = (struct policy_program){
        .text = c.text,
        .root = plan_tree(&c, root),
        .type_text = type ? type_text(&c, type) : NULL,
        .type_kind = type ? type->kind : TYPE_DYN,
        .locals_count = c.locals_count,
        .env = env,
    };
    program->memo_count = c.memo_count;
    if (!program->root) {
        return c.status;
    }
    if (!program->type_text) {
        compile_out_of_memory(&c);
        return c.status;
    }
    *ret_program = program;
    return 0;
}

int policy_compile(const struct policy_env *env, struct str text, struct arena *arena,
                   const struct policy_program **ret_program, struct error *err)
{
    return compile(env, text, arena, true, ret_program, err);
}

int policy_compile_unchecked(const struct policy_env *env, struct str text, struct arena *arena,
                             const struct policy_program **ret_program, struct error *err)
{
    return compile(env, text, arena, false, ret_program, err);
}

struct str policy_program_text(const struct policy_program *program)
{
    return program->text;
}

const char *policy_program_type(const struct policy_program *program)
{
    return program->type_text;
}

bool policy_program_may_be_bool(const struct policy_program *program)
{
    return program->type_kind == TYPE_BOOL || program->type_kind == TYPE_DYN;
}
