#include "policy/decide/lint_expression.h"

#include "policy/base/suggest.h"
#include "policy/cel/function.h"
#include "policy/lib/regex.h"

const char *policy_shape_kind_name(enum policy_shape_kind kind)
{
    static const char *const names[] = {
        [POLICY_SHAPE_ANY] = "something",
        [POLICY_SHAPE_BOOL] = "true or false",
        [POLICY_SHAPE_STRING] = "text",
        [POLICY_SHAPE_NUMBER] = "a number",
        [POLICY_SHAPE_INT] = "a whole number",
        [POLICY_SHAPE_INT_TEXT] = "text of digits (a 64-bit number)",
        [POLICY_SHAPE_ENUM] = "text, one of a few names",
        [POLICY_SHAPE_TIME_TEXT] = "text of a time (RFC 3339)",
        [POLICY_SHAPE_DURATION_TEXT] = "text of a duration",
        [POLICY_SHAPE_BYTES_TEXT] = "base64 text",
        [POLICY_SHAPE_LIST] = "a list",
        [POLICY_SHAPE_MAP] = "a map",
        [POLICY_SHAPE_OBJECT] = "an object",
    };
    return names[kind];
}

uint8_t lint_kind_of_shape(const struct policy_shape *shape)
{
    switch (shape->kind) {
    case POLICY_SHAPE_ANY:
        return KIND_ANY;
    case POLICY_SHAPE_BOOL:
        return POLICY_BOOL;
    case POLICY_SHAPE_NUMBER:
        return POLICY_DOUBLE;
    case POLICY_SHAPE_INT:
        return POLICY_INT;
    case POLICY_SHAPE_STRING:
    case POLICY_SHAPE_INT_TEXT:
    case POLICY_SHAPE_ENUM:
    case POLICY_SHAPE_TIME_TEXT:
    case POLICY_SHAPE_DURATION_TEXT:
    case POLICY_SHAPE_BYTES_TEXT:
        return POLICY_STRING;
    case POLICY_SHAPE_LIST:
        return POLICY_LIST;
    case POLICY_SHAPE_MAP:
    case POLICY_SHAPE_OBJECT:
        return POLICY_MAP;
    }
    return KIND_ANY;
}

uint8_t lint_kind_of_call(const struct ast *node)
{
    static const struct {
        const char *name;
        uint8_t kind;
    } results[] = {
        {"now", POLICY_TIMESTAMP},     {"timestamp", POLICY_TIMESTAMP},
        {"duration", POLICY_DURATION}, {"size", POLICY_INT},
        {"int", POLICY_INT},           {"double", POLICY_DOUBLE},
        {"string", POLICY_STRING},     {"toLower", POLICY_STRING},
        {"toUpper", POLICY_STRING},    {"lowerAscii", POLICY_STRING},
        {"upperAscii", POLICY_STRING}, {"trim", POLICY_STRING},
    };
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        if (str_is(node->name, results[i].name)) {
            return results[i].kind;
        }
    }
    return KIND_ANY;
}

static bool is_number(uint8_t kind)
{
    return kind == POLICY_INT || kind == POLICY_UINT || kind == POLICY_DOUBLE;
}

static const char *kind_text(uint8_t kind)
{
    return is_number(kind)            ? "a number"
           : kind == POLICY_STRING    ? "text"
           : kind == POLICY_BOOL      ? "true or false"
           : kind == POLICY_LIST      ? "a list"
           : kind == POLICY_MAP       ? "a map"
           : kind == POLICY_TIMESTAMP ? "a timestamp"
           : kind == POLICY_DURATION  ? "a duration"
                                      : policy_kind_name(kind);
}

/* How to bring a part of the input and another kind together. */
static const char *conversion(struct lint_run *run, const struct lint_seen *part, uint8_t other)
{
    const char *function = part->shape.kind == POLICY_SHAPE_TIME_TEXT       ? "timestamp"
                           : part->shape.kind == POLICY_SHAPE_DURATION_TEXT ? "duration"
                           : part->shape.kind == POLICY_SHAPE_INT_TEXT      ? "int"
                                                                            : NULL;
    const char *text = NULL;
    if (function) {
        text = arena_printf(run->arena, "write %s(%s)", function, part->path);
    } else if (is_number(other) && part->kind == POLICY_STRING) {
        text = "put the number in quotes";
    } else if (other == POLICY_STRING && is_number(part->kind)) {
        text = "write the number without quotes";
    } else if (other == POLICY_STRING && part->kind == POLICY_BOOL) {
        text = "write true or false without quotes";
    }
    return text ? text : "";
}

/* Two kinds that the language never finds equal nor orders. */
static bool kinds_clash(uint8_t a, uint8_t b)
{
    return a != KIND_ANY && b != KIND_ANY && a != b && !(is_number(a) && is_number(b)) &&
           a != POLICY_NULL && b != POLICY_NULL;
}

static bool constant_is_zero(const struct policy_shape *shape, const struct ast *node)
{
    struct policy_value v = node->value;
    if (node->kind != AST_CONST) {
        return false;
    }
    switch (v.kind) {
    case POLICY_BOOL:
        return !v.as.truth;
    case POLICY_INT:
    case POLICY_UINT:
        return v.as.u == 0;
    case POLICY_DOUBLE:
        return v.as.d == 0;
    case POLICY_STRING:
        if (shape->kind == POLICY_SHAPE_ENUM) {
            const char *first = shape->ops->enum_text(shape, 0);
            return first && str_is(policy_value_str(v), first);
        }
        return v.len == 0;
    default:
        return false;
    }
}

static bool enum_has(const struct policy_shape *shape, struct str text)
{
    const char *name;
    for (size_t i = 0; (name = shape->ops->enum_text(shape, i)); i++) {
        if (str_is(text, name)) {
            return true;
        }
    }
    return false;
}

static void report_enum(struct lint_run *run, const struct ast *node, const struct lint_seen *part,
                        const struct ast *constant)
{
    struct str text = policy_value_str(constant->value);
    struct suggest s = suggest_for(text);
    const char *name;
    char list[200] = "";
    size_t len = 0;
    for (size_t i = 0; (name = part->shape.ops->enum_text(&part->shape, i)); i++) {
        suggest_offer(&s, name);
        size_t n = strlen(name);
        if (i > 0 && len + n + 3 < sizeof list) {
            memcpy(list + len, len ? ", " : "", len ? 2 : 0);
            len += len ? 2 : 0;
            memcpy(list + len, name, n + 1);
            len += n;
        }
    }
    const char *remedy = s.best ? arena_printf(run->arena, "did you mean \"%s\"?", s.best)
                                : arena_printf(run->arena, "it is one of %s", list);
    lint_point(run, node);
    lint_report(run, POLICY_FINDING_NEVER_TRUE, remedy ? remedy : "", "%s is never \"%.*s\"",
                part->path, STR_ARG(text));
}

static void check_enum(struct lint_run *run, const struct ast *node, const struct lint_seen *part,
                       const struct ast *other)
{
    if (other->kind == AST_LIST) {
        for (size_t i = 0; i < other->args_count; i++) {
            check_enum(run, node, part, other->args[i]);
        }
    } else if (other->kind == AST_CONST && other->value.kind == POLICY_STRING &&
               !enum_has(&part->shape, policy_value_str(other->value))) {
        report_enum(run, node, part, other);
    }
}

/* True when there was something to tell. */
static bool check_zero(struct lint_run *run, const struct ast *node, const struct lint_seen *part,
                       const struct ast *other)
{
    bool is_bool_not_true = node->op == OP_NE && other->kind == AST_CONST &&
                            other->value.kind == POLICY_BOOL && other->value.as.truth;
    bool is_zero_test = node->op == OP_EQ && constant_is_zero(&part->shape, other);
    if (!part->shape.zero_is_absent || !(is_zero_test || is_bool_not_true)) {
        return false;
    }
    lint_point(run, node);
    lint_report(run, POLICY_FINDING_ZERO_ABSENT,
                arena_printf(run->arena, "write !has(%s)", part->path),
                "%s is absent when it is %s, so that this is never true", part->path,
                part->kind == POLICY_BOOL               ? "false"
                : is_number(part->kind)                 ? "0"
                : part->shape.kind == POLICY_SHAPE_ENUM ? "unset"
                                                        : "empty");
    return true;
}

static void report_clash(struct lint_run *run, const struct ast *node, const struct lint_seen *part,
                         uint8_t other)
{
    const char *remedy = conversion(run, part, other);
    const char *what = policy_shape_kind_name(part->shape.kind);
    lint_point(run, node);
    if (node->op == OP_EQ) {
        lint_report(run, POLICY_FINDING_NEVER_TRUE, remedy, "%s is %s and never equal to %s",
                    part->path, what, kind_text(other));
    } else if (node->op == OP_NE) {
        lint_report(run, POLICY_FINDING_NEVER_TRUE, remedy, "%s is %s and always differs from %s",
                    part->path, what, kind_text(other));
    } else {
        lint_report(run, POLICY_FINDING_FAILS, remedy, "%s is %s: '%s' with %s fails", part->path,
                    what, ast_op_text(node->op), kind_text(other));
    }
}

static void check_in(struct lint_run *run, const struct ast *node, const struct lint_seen *left,
                     const struct lint_seen *right)
{
    if (left->path && left->shape.kind == POLICY_SHAPE_ENUM) {
        check_enum(run, node, left, node->args[1]);
    }
    bool is_container =
        right->kind == POLICY_LIST || right->kind == POLICY_MAP || right->kind == KIND_ANY;
    if (right->path && !is_container) {
        lint_point(run, node);
        lint_report(run, POLICY_FINDING_FAILS,
                    right->kind == POLICY_STRING ? "use contains() for a part of a text" : "",
                    "%s is %s: 'in' needs a list or a map", right->path,
                    policy_shape_kind_name(right->shape.kind));
    }
}

void lint_comparison(struct lint_run *run, const struct ast *node, const struct lint_seen *left,
                     const struct lint_seen *right)
{
    if (node->op == OP_IN) {
        check_in(run, node, left, right);
        return;
    }
    bool left_is_part = left->path && left->kind != KIND_ANY;
    const struct lint_seen *part = left_is_part ? left : right;
    const struct lint_seen *other = left_is_part ? right : left;
    const struct ast *other_node = node->args[left_is_part ? 1 : 0];
    if (!part->path || part->kind == KIND_ANY) {
        return;
    }
    if (kinds_clash(part->kind, other->kind)) {
        report_clash(run, node, part, other->kind);
    } else if (!check_zero(run, node, part, other_node) && part->shape.kind == POLICY_SHAPE_ENUM &&
               (node->op == OP_EQ || node->op == OP_NE)) {
        check_enum(run, node, part, other_node);
    }
}

void lint_arithmetic(struct lint_run *run, const struct ast *node, const struct lint_seen *left,
                     const struct lint_seen *right)
{
    const struct lint_seen *part = left->path && left->kind != KIND_ANY ? left : right;
    const struct lint_seen *other = part == left ? right : left;
    if (!part->path || part->kind == KIND_ANY || other->kind == KIND_ANY) {
        return;
    }
    bool mixes_numbers = is_number(part->kind) && is_number(other->kind);
    bool mixes_times = (part->kind == POLICY_STRING) != (other->kind == POLICY_STRING);
    if (part->kind == other->kind || (!mixes_numbers && !mixes_times)) {
        return;
    }
    lint_point(run, node);
    lint_report(run, POLICY_FINDING_FAILS,
                mixes_numbers ? "numbers of ctx are doubles: write 1.0 for 1"
                              : conversion(run, part, other->kind),
                "%s is %s: '%s' with %s fails", part->path,
                part->kind == POLICY_DOUBLE ? "a double" : policy_shape_kind_name(part->shape.kind),
                ast_op_text(node->op),
                other->kind == POLICY_INT ? "an int" : kind_text(other->kind));
}

/* Can a text that has begun, or that has ended, go on? `^` after something and something after `$`
 * never match. Looks at plain patterns only: no alternatives, groups, flags or optional parts. */
static bool pattern_contradicts(struct str p)
{
    bool has_text = false;
    bool has_end = false;
    for (size_t i = 0; i < p.len; i++) {
        char c = p.ptr[i];
        char next = i + 1 < p.len ? p.ptr[i + 1] : '\0';
        if (strchr("|()[]{}", c)) {
            return false;
        }
        if (c == '^') {
            if (has_text) {
                return true;
            }
            continue;
        }
        if (c == '$') {
            has_end = true;
            continue;
        }
        if (c == '\\') {
            i++;
            if (next && strchr("bBAzQE", next)) {
                return false;
            }
            next = i + 1 < p.len ? p.ptr[i + 1] : '\0';
        }
        if (next && strchr("*?{", next)) {
            i++; /* may be nothing */
            continue;
        }
        if (has_end && c != '+') {
            return true;
        }
        has_text = true;
    }
    return false;
}

/* Does the pattern match any of the names? True when that cannot be told. */
static bool pattern_matches_enum(struct lint_run *run, struct str pattern,
                                 const struct policy_shape *shape)
{
    const struct regex *regex;
    const char *why;
    const char *name;
    if (regex_compile(run->arena, pattern, &regex, &why) != REGEX_OK) {
        return true;
    }
    for (size_t i = 0; (name = shape->ops->enum_text(shape, i)); i++) {
        bool found = false;
        if (regex_search(regex, str_from(name), 0, REGEX_LITTLE, &found, NULL) != REGEX_OK ||
            found) {
            return true;
        }
    }
    return false;
}

void lint_call(struct lint_run *run, const struct ast *node, const struct lint_seen *target)
{
    bool is_literal = node->args_count == 1 && node->args[0]->kind == AST_CONST &&
                      node->args[0]->value.kind == POLICY_STRING;
    if (str_is(node->name, "matches") && is_literal) {
        struct str pattern = policy_value_str(node->args[0]->value);
        bool never = pattern_contradicts(pattern) ||
                     (target->path && target->shape.kind == POLICY_SHAPE_ENUM &&
                      !pattern_matches_enum(run, pattern, &target->shape));
        if (never) {
            lint_point(run, node);
            lint_report(run, POLICY_FINDING_REGEX_NEVER, "",
                        "the pattern \"%.*s\" matches nothing%s", STR_ARG(pattern),
                        target->path && target->shape.kind == POLICY_SHAPE_ENUM
                            ? " that this member can be"
                            : "");
        }
    }
    if (target->path && target->shape.kind == POLICY_SHAPE_TIME_TEXT &&
        str_starts_with(node->name, STR("get"))) {
        lint_point(run, node);
        lint_report(run, POLICY_FINDING_FAILS, conversion(run, target, POLICY_TIMESTAMP),
                    "%s is text of a time (RFC 3339) and has no %.*s()", target->path,
                    STR_ARG(node->name));
    }
}
