#include "policy/cel/ast.h"

#include "policy/base/utf8.h"
#include "policy/cel/lex.h"
#include "policy/cel/literal.h"

/* Grammar: CEL language definition, "Syntax". Recursive descent; each level of nesting in the
 * text is one turn of parse_expr, which counts depth. Chains of operators, selections and calls
 * are loops and cost no depth. */
struct parser {
    struct compile *c;
    struct lexer lexer;
    struct token token; /* the next one */
    unsigned depth;
};

static struct ast *parse_expr(struct parser *p);

static void advance(struct parser *p)
{
    if (p->token.kind != TOKEN_ERROR) {
        p->token = lex_next(&p->lexer);
    }
}

static bool take(struct parser *p, uint8_t kind)
{
    if (p->token.kind != kind) {
        return false;
    }
    advance(p);
    return true;
}

static struct ast *fail_expected(struct parser *p, const char *what)
{
    if (p->token.kind == TOKEN_END) {
        return compile_fail(p->c, p->token.begin, "expected %s, but the expression ends here",
                            what);
    }
    struct str seen = str_make(p->c->text.ptr + p->token.begin, p->token.end - p->token.begin);
    seen.len = seen.len > 40 ? 40 : seen.len;
    const char *hint = str_is(seen, "and") || str_is(seen, "AND") ? ": write '&&'"
                       : str_is(seen, "or") || str_is(seen, "OR") ? ": write '||'"
                                                                  : "";
    return compile_fail(p->c, p->token.begin, "expected %s, found '%.*s'%s", what, STR_ARG(seen),
                        hint);
}

static struct ast *finish(struct parser *p, struct ast *node, uint32_t begin)
{
    node->begin = begin;
    node->end = p->token.kind == TOKEN_ERROR ? node->at : p->token.begin;
    while (node->end > begin && strchr(" \t\r\n\f", p->c->text.ptr[node->end - 1])) {
        node->end--;
    }
    return ast_finish(p->c, node);
}

static struct ast *make_const(struct parser *p, struct policy_value v, uint32_t begin)
{
    struct ast *node = ast_new(p->c, AST_CONST, begin);
    if (!node) {
        return NULL;
    }
    node->value = v;
    return finish(p, node, begin);
}

/* INT, UINT or DOUBLE. */
static struct ast *parse_number(struct parser *p, bool negative, uint32_t begin)
{
    struct token t = p->token;
    struct policy_value v;
    advance(p);
    return literal_read_number(p->c, &t, negative, &v) ? make_const(p, v, begin) : NULL;
}

static struct ast *parse_literal_text(struct parser *p)
{
    struct token t = p->token;
    advance(p);
    if (t.kind == TOKEN_BYTES) {
        return make_const(p, policy_bytes(t.text), t.begin);
    }
    return make_const(p, policy_string(t.text), t.begin);
}

/* Elements of a call, up to the closing parenthesis. No trailing comma. */
static bool parse_call_args(struct parser *p, struct ast *call)
{
    struct ast_vec vec = {0};
    if (!take(p, TOKEN_RPAREN)) {
        do {
            struct ast *arg = parse_expr(p);
            if (!arg || !ast_vec_add(p->c, &vec, arg)) {
                return false;
            }
        } while (take(p, TOKEN_COMMA));
        if (!take(p, TOKEN_RPAREN)) {
            fail_expected(p, "',' or ')'");
            return false;
        }
    }
    call->args = vec.items;
    call->args_count = vec.count;
    return true;
}

static bool mark_optional(struct parser *p, struct ast *node, size_t index, size_t *room)
{
    if (index >= *room) {
        size_t grown_room = *room ? *room * 2 : 16;
        while (grown_room <= index) {
            grown_room *= 2;
        }
        bool *grown = arena_zalloc(p->c->arena, grown_room);
        if (!grown) {
            compile_out_of_memory(p->c);
            return false;
        }
        if (*room > 0) {
            memcpy(grown, node->optional_args, *room);
        }
        node->optional_args = grown;
        *room = grown_room;
    }
    node->optional_args[index] = true;
    return true;
}

/* optional_args gets one flag for each argument, when there is any. */
static bool fit_optional(struct parser *p, struct ast *node, size_t room)
{
    if (room == 0 || room >= node->args_count) {
        return true;
    }
    bool *grown = arena_zalloc(p->c->arena, node->args_count);
    if (!grown) {
        compile_out_of_memory(p->c);
        return false;
    }
    memcpy(grown, node->optional_args, room);
    node->optional_args = grown;
    return true;
}

/* One element of a list. */
static bool parse_element(struct parser *p, struct ast_vec *vec)
{
    struct ast *item = parse_expr(p);
    return item && ast_vec_add(p->c, vec, item);
}

/* One `key: value` of a map. */
static bool parse_entry(struct parser *p, struct ast_vec *vec)
{
    if (!parse_element(p, vec)) {
        return false;
    }
    if (!take(p, TOKEN_COLON)) {
        fail_expected(p, "':'");
        return false;
    }
    return parse_element(p, vec);
}

/* A list or a map: a '?' makes an element optional, and a comma may stand behind the last. */
struct literal {
    enum ast_kind kind;
    uint8_t close; /* enum token_kind */
    bool (*parse_one)(struct parser *p, struct ast_vec *vec);
    const char *one, *end; /* for messages */
};

static const struct literal literal_list = {AST_LIST, TOKEN_RBRACKET, parse_element, "an element",
                                            "',' or ']'"};
static const struct literal literal_map = {AST_MAP, TOKEN_RBRACE, parse_entry, "an entry",
                                           "',' or '}'"};

static struct ast *parse_literal(struct parser *p, const struct literal *literal)
{
    uint32_t begin = p->token.begin;
    struct ast *node = ast_new(p->c, literal->kind, begin);
    struct ast_vec vec = {0};
    size_t optional_room = 0;
    if (!node) {
        return NULL;
    }
    advance(p);
    while (p->token.kind != literal->close && p->token.kind != TOKEN_COMMA) {
        if (take(p, TOKEN_QUESTION) && !mark_optional(p, node, vec.count, &optional_room)) {
            return NULL;
        }
        if (!literal->parse_one(p, &vec)) {
            return NULL;
        }
        if (p->token.kind != TOKEN_COMMA) {
            break;
        }
        advance(p);
        if (p->token.kind == TOKEN_COMMA) {
            return fail_expected(p, literal->one);
        }
    }
    if (vec.count == 0) {
        (void)take(p, TOKEN_COMMA);
    }
    if (!take(p, literal->close)) {
        return fail_expected(p, literal->end);
    }
    node->args = vec.items;
    node->args_count = vec.count;
    return fit_optional(p, node, optional_room) ? finish(p, node, begin) : NULL;
}

/* The fields of name{...}; the value is dropped, since message types are not supported. */
static struct ast *parse_message(struct parser *p, struct ast *name)
{
    struct ast *node = ast_new(p->c, AST_MESSAGE, name->begin);
    if (!node) {
        return NULL;
    }
    advance(p);
    while (p->token.kind != TOKEN_RBRACE && p->token.kind != TOKEN_COMMA) {
        (void)take(p, TOKEN_QUESTION);
        if (!take(p, TOKEN_IDENT) && !take(p, TOKEN_QUOTED)) {
            return fail_expected(p, "a field name");
        }
        if (!take(p, TOKEN_COLON)) {
            return fail_expected(p, "':'");
        }
        if (!parse_expr(p)) {
            return NULL;
        }
        if (!take(p, TOKEN_COMMA)) {
            break;
        }
    }
    (void)take(p, TOKEN_COMMA);
    if (!take(p, TOKEN_RBRACE)) {
        return fail_expected(p, "',' or '}'");
    }
    return finish(p, node, name->begin);
}

static struct ast *parse_identifier(struct parser *p)
{
    uint32_t begin = p->token.begin;
    bool absolute = take(p, TOKEN_DOT);
    struct token name = p->token;
    if (!take(p, TOKEN_IDENT)) {
        return fail_expected(p, "an expression");
    }
    if (lex_is_reserved(name.text)) {
        return compile_fail(p->c, name.begin, "'%.*s' is a reserved word", STR_ARG(name.text));
    }
    bool is_call = take(p, TOKEN_LPAREN);
    struct ast *node = ast_new(p->c, is_call ? AST_CALL : AST_IDENT, name.begin);
    if (!node) {
        return NULL;
    }
    node->name = name.text;
    node->absolute = absolute;
    if (!is_call) {
        return finish(p, node, begin);
    }
    if (!parse_call_args(p, node) || !finish(p, node, begin)) {
        return NULL;
    }
    return macro_expand(p->c, node);
}

static struct ast *parse_primary(struct parser *p)
{
    struct token t = p->token;
    struct ast *inner;
    switch (t.kind) {
    case TOKEN_INT:
    case TOKEN_UINT:
    case TOKEN_DOUBLE:
        return parse_number(p, false, t.begin);
    case TOKEN_STRING:
    case TOKEN_BYTES:
        return parse_literal_text(p);
    case TOKEN_TRUE:
    case TOKEN_FALSE:
        advance(p);
        return make_const(p, policy_bool(t.kind == TOKEN_TRUE), t.begin);
    case TOKEN_NULL:
        advance(p);
        return make_const(p, policy_null(), t.begin);
    case TOKEN_LPAREN:
        advance(p);
        inner = parse_expr(p);
        if (inner && !take(p, TOKEN_RPAREN)) {
            return fail_expected(p, "')'");
        }
        return inner;
    case TOKEN_LBRACKET:
        return parse_literal(p, &literal_list);
    case TOKEN_LBRACE:
        return parse_literal(p, &literal_map);
    default:
        return parse_identifier(p);
    }
}

static bool is_dotted_name(const struct ast *node)
{
    while (node->kind == AST_SELECT && !node->optional && !node->presence) {
        node = node->target;
    }
    return node->kind == AST_IDENT;
}

static struct ast *parse_selection(struct parser *p, struct ast *target)
{
    uint32_t at = p->token.begin;
    advance(p);
    bool optional = take(p, TOKEN_QUESTION);
    struct token name = p->token;
    if (!take(p, TOKEN_QUOTED) && !take(p, TOKEN_IDENT)) {
        return fail_expected(p, "a member's name");
    }
    bool is_call = !optional && name.kind == TOKEN_IDENT && take(p, TOKEN_LPAREN);
    struct ast *node = ast_new(p->c, is_call ? AST_CALL : AST_SELECT, at);
    if (!node) {
        return NULL;
    }
    node->name = name.text;
    node->target = target;
    node->optional = optional;
    if (!is_call) {
        return finish(p, node, target->begin);
    }
    node->at = name.begin;
    if (!parse_call_args(p, node) || !finish(p, node, target->begin)) {
        return NULL;
    }
    return macro_expand(p->c, node);
}

static struct ast *parse_index(struct parser *p, struct ast *target)
{
    struct ast *node = ast_new(p->c, AST_INDEX, p->token.begin);
    struct ast_vec vec = {0};
    if (!node) {
        return NULL;
    }
    advance(p);
    node->target = target;
    node->optional = take(p, TOKEN_QUESTION);
    struct ast *index = parse_expr(p);
    if (!index || !ast_vec_add(p->c, &vec, index)) {
        return NULL;
    }
    node->args = vec.items;
    node->args_count = 1;
    if (!take(p, TOKEN_RBRACKET)) {
        return fail_expected(p, "']'");
    }
    return finish(p, node, target->begin);
}

static struct ast *parse_postfix(struct parser *p, struct ast *node)
{
    while (node) {
        if (p->token.kind == TOKEN_DOT) {
            node = parse_selection(p, node);
        } else if (p->token.kind == TOKEN_LBRACKET) {
            node = parse_index(p, node);
        } else if (p->token.kind == TOKEN_LBRACE && is_dotted_name(node)) {
            node = parse_message(p, node);
        } else {
            break;
        }
    }
    return p->token.kind == TOKEN_ERROR ? NULL : node;
}

static struct ast *make_unary(struct parser *p, uint8_t op, struct ast *operand, uint32_t begin)
{
    struct ast *node = ast_new(p->c, AST_UNARY, begin);
    struct ast_vec vec = {0};
    if (!operand || !node || !ast_vec_add(p->c, &vec, operand)) {
        return NULL;
    }
    node->op = op;
    node->args = vec.items;
    node->args_count = 1;
    return finish(p, node, begin);
}

/* '!' and '-' repeat but don't mix; pairs cancel. A '-' before a number belongs to the number. */
static struct ast *parse_unary(struct parser *p)
{
    uint8_t kind = p->token.kind;
    uint32_t begin = p->token.begin;
    if (kind != TOKEN_NOT && kind != TOKEN_MINUS) {
        struct ast *primary = parse_primary(p);
        return primary ? parse_postfix(p, primary) : NULL;
    }
    size_t count = 0;
    uint32_t last = begin;
    while (p->token.kind == kind) {
        last = p->token.begin;
        advance(p);
        count++;
    }
    struct ast *operand;
    bool negative = p->token.kind == TOKEN_INT || p->token.kind == TOKEN_DOUBLE;
    if (kind == TOKEN_MINUS && negative) {
        count--;
        operand = parse_number(p, true, last);
    } else if (kind == TOKEN_NOT && p->token.kind == TOKEN_MINUS) {
        advance(p);
        if (p->token.kind != TOKEN_INT && p->token.kind != TOKEN_DOUBLE) {
            return fail_expected(p, "a number");
        }
        operand = parse_number(p, true, last);
    } else {
        operand = parse_primary(p);
    }
    operand = operand ? parse_postfix(p, operand) : NULL;
    if (!operand || count % 2 == 0) {
        return operand;
    }
    return make_unary(p, kind == TOKEN_NOT ? OP_NOT : OP_NEGATE, operand, begin);
}

static int binary_operator(uint8_t token, uint8_t *ret_op)
{
    static const struct {
        uint8_t token;
        uint8_t op;
        uint8_t precedence;
    } table[] = {{TOKEN_EQ, OP_EQ, 1},    {TOKEN_NE, OP_NE, 1},     {TOKEN_LT, OP_LT, 1},
                 {TOKEN_LE, OP_LE, 1},    {TOKEN_GT, OP_GT, 1},     {TOKEN_GE, OP_GE, 1},
                 {TOKEN_IN, OP_IN, 1},    {TOKEN_PLUS, OP_ADD, 2},  {TOKEN_MINUS, OP_SUB, 2},
                 {TOKEN_STAR, OP_MUL, 3}, {TOKEN_SLASH, OP_DIV, 3}, {TOKEN_PERCENT, OP_MOD, 3}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].token == token) {
            *ret_op = table[i].op;
            return table[i].precedence;
        }
    }
    return 0;
}

/* Relations, sums and products, all left-associative; recursion at most three deep. */
static struct ast *parse_binary(struct parser *p, int precedence)
{
    uint32_t begin = p->token.begin;
    struct ast *left = precedence > 3 ? parse_unary(p) : parse_binary(p, precedence + 1);
    uint8_t op = OP_NONE;
    while (left && precedence <= 3 && binary_operator(p->token.kind, &op) == precedence) {
        struct ast *node = ast_new(p->c, AST_BINARY, p->token.begin);
        struct ast_vec vec = {0};
        advance(p);
        struct ast *right = parse_binary(p, precedence + 1);
        if (!right || !node || !ast_vec_add(p->c, &vec, left) || !ast_vec_add(p->c, &vec, right)) {
            return NULL;
        }
        node->op = op;
        node->args = vec.items;
        node->args_count = 2;
        left = finish(p, node, begin);
    }
    return left;
}

/* a || b || c as one node. */
static struct ast *parse_logic(struct parser *p, uint8_t op)
{
    uint8_t token = op == OP_OR ? TOKEN_OR : TOKEN_AND;
    uint32_t begin = p->token.begin;
    struct ast *first = op == OP_OR ? parse_logic(p, OP_AND) : parse_binary(p, 1);
    if (!first || p->token.kind != token) {
        return first;
    }
    struct ast *node = ast_new(p->c, AST_LOGIC, p->token.begin);
    struct ast_vec vec = {0};
    if (!node || !ast_vec_add(p->c, &vec, first)) {
        return NULL;
    }
    while (take(p, token)) {
        struct ast *next = op == OP_OR ? parse_logic(p, OP_AND) : parse_binary(p, 1);
        if (!next || !ast_vec_add(p->c, &vec, next)) {
            return NULL;
        }
    }
    node->op = op;
    node->args = vec.items;
    node->args_count = vec.count;
    return finish(p, node, begin);
}

static struct ast *parse_condition(struct parser *p)
{
    uint32_t begin = p->token.begin;
    struct ast *first = parse_logic(p, OP_OR);
    if (!first || p->token.kind != TOKEN_QUESTION) {
        return first;
    }
    struct ast *node = ast_new(p->c, AST_CONDITION, p->token.begin);
    struct ast_vec vec = {0};
    advance(p);
    struct ast *yes = parse_logic(p, OP_OR);
    if (!yes || !node) {
        return NULL;
    }
    if (!take(p, TOKEN_COLON)) {
        return fail_expected(p, "':' of the condition '?:'");
    }
    struct ast *no = parse_expr(p);
    if (!no || !ast_vec_add(p->c, &vec, first) || !ast_vec_add(p->c, &vec, yes) ||
        !ast_vec_add(p->c, &vec, no)) {
        return NULL;
    }
    node->args = vec.items;
    node->args_count = 3;
    return finish(p, node, begin);
}

static struct ast *parse_expr(struct parser *p)
{
    if (p->depth >= POLICY_DEPTH_MAX) {
        return compile_fail(p->c, p->token.begin, "expression nested deeper than %d levels",
                            POLICY_DEPTH_MAX);
    }
    p->depth++;
    struct ast *node = parse_condition(p);
    p->depth--;
    return node;
}

struct ast *parse_expression(struct compile *c)
{
    struct parser p = {.c = c, .lexer = {.c = c}};
    if (c->text.len > POLICY_SOURCE_BYTES_MAX) {
        return compile_fail(c, 0, "expression longer than %d bytes", POLICY_SOURCE_BYTES_MAX);
    }
    if (!utf8_is_valid(c->text)) {
        return compile_fail(c, 0, "expression is not valid UTF-8");
    }
    advance(&p);
    if (p.token.kind == TOKEN_END) {
        return compile_fail(c, 0, "empty expression");
    }
    struct ast *root = parse_expr(&p);
    if (root && p.token.kind != TOKEN_END) {
        return fail_expected(&p, "an operator or the end");
    }
    return root;
}
