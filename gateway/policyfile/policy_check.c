/* policy_files_check(): every expression of every policy compiled by itself, so that each error
 * has its place in the YAML; then what the model forbids, references, and the linter. */
#include "gateway/policyfile/policy_files.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/authorize/ctx_schema.h"
#include "gateway/authorize/policy_source_of.h"
#include "gateway/authorize/system_policies.h"
#include "gateway/policyfile/yaml_trap.h"
#include "gateway/text/yaml_place.h"

struct checker {
    struct policy_files *files;
    struct written_policy *policy;
};

enum { CHECK_MEMORY_MAX_BYTES = 64 << 20, PLACE_TEXT_MAX = 64 };

static const struct tree_node *list_item(const struct tree_node *list, size_t i)
{
    const struct tree_node *n = list && list->type == TREE_LIST ? list->first : NULL;
    while (n && i-- > 0) {
        n = n->next;
    }
    return n;
}

/* The `of` of an all, any or none. */
static const struct tree_node *children_of(const struct tree_node *condition)
{
    static const char *const forms[] = {"all", "any", "none"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const struct tree_node *of = tree_member(tree_member(condition, forms[i]), "of");
        if (of) {
            return of;
        }
    }
    return NULL;
}

/* `better` when it is there. */
static const struct tree_node *or_else(const struct tree_node *better, const struct tree_node *node)
{
    return better ? better : node;
}

/* The name of a member as a node of its own, or the member when memory is out. */
static const struct tree_node *key_of(struct arena *arena, const struct tree_node *member)
{
    struct tree_node *key = arena_zalloc(arena, sizeof *key);
    if (!key) {
        return member;
    }
    key->type = TREE_STRING;
    key->is_plain = true;
    key->line = member->key_line;
    key->column = member->key_column;
    key->text = member->key;
    return key;
}

/* The node of a place; the nearest one above it when the file does not have it. */
static const struct tree_node *node_at(struct checker *c, const struct policy_place *place)
{
    const struct written_policy *policy = c->policy;
    const struct tree_node *node = or_else(policy->spec, policy->document->tree);
    if (place->section == POLICY_SECTION_POLICY) {
        return node;
    }
    if (place->section == POLICY_SECTION_ATTR) {
        const struct tree_node *attrs = tree_member(node, "attrs");
        for (const struct tree_node *n = attrs ? attrs->first : NULL; n; n = n->next) {
            if (str_eq(n->key, place->attr)) {
                return key_of(c->files->arena, n);
            }
        }
        return or_else(attrs, node);
    }
    bool is_rule = place->section == POLICY_SECTION_RULE;
    const struct tree_node *list = tree_member(node, is_rule ? "rules" : "enforcementRules");
    const struct tree_node *rule = list_item(list, place->rule_index);
    if (!rule) {
        return or_else(list, node);
    }
    bool is_whole = place->depth == 0 && !place->has_range;
    const struct tree_node *condition = tree_member(rule, "condition");
    if (!condition || is_whole) {
        return rule;
    }
    for (size_t i = 0; i < place->depth; i++) {
        condition = or_else(list_item(children_of(condition), place->path[i]), condition);
    }
    const struct tree_node *leaf =
        or_else(tree_member(condition, "match"), tree_member(condition, "not"));
    return or_else(leaf, condition);
}

/* "Policy 'x': rule #2". */
static const char *subject_of(struct checker *c, const struct policy_place *place)
{
    const struct written_policy *p = c->policy;
    struct arena *arena = c->files->arena;
    const char *policy = p->is_inline ? arena_printf(arena, "%s '%s': inline policy '%s'",
                                                     store_kind_info(p->document->kind)->kind,
                                                     p->document->name, p->name)
                                      : arena_printf(arena, "Policy '%s'", p->name);
    bool is_rule = place->section == POLICY_SECTION_RULE;
    if (!policy || !(is_rule || place->section == POLICY_SECTION_ENFORCEMENT)) {
        return policy;
    }
    return arena_printf(arena, "%s: %s #%zu", policy, is_rule ? "rule" : "enforcement rule",
                        place->rule_index);
}

static void tell(struct checker *c, const struct policy_place *place, enum policy_severity severity,
                 const char *code, const char *text, const char *remedy)
{
    const struct tree_node *node = node_at(c, place);
    struct diagnostic d = {.severity = severity,
                           .code = code,
                           .text = text,
                           .remedy = remedy,
                           .subject = subject_of(c, place)};
    size_t end = place->has_range                        ? place->end
                 : place->section == POLICY_SECTION_ATTR ? place->attr.len
                                                         : 0;
    if (place->has_range && end <= place->begin) {
        end = (size_t)place->begin + 1;
    }
    policy_files_tell(c->files, c->policy->document, node, place->begin, end, &d);
    c->policy->is_broken |= severity == POLICY_SEVERITY_ERROR;
}

/* The first line of the compiler's text: the source and the caret come from the file. */
static const char *first_line(struct arena *arena, const char *text)
{
    size_t len = strcspn(text, "\n");
    while (len > 0 && text[len - 1] == ' ') {
        len--;
    }
    const char *line = arena_strndup(arena, text, len);
    return line ? line : "out of memory";
}

static struct str word_at(struct str text, size_t at)
{
    size_t end = at;
    while (end < text.len && (text.ptr[end] == '_' || isalnum((unsigned char)text.ptr[end]))) {
        end++;
    }
    return str_make(text.ptr + at, end - at);
}

/* What was meant by a word that the language does not know, and other languages or ctx do. */
static const char *remedy_of(struct checker *c, struct str text, size_t at)
{
    static const char *const words[][2] = {
        {"True", "write true"},   {"TRUE", "write true"}, {"False", "write false"},
        {"FALSE", "write false"}, {"None", "write null"}, {"nil", "write null"},
        {"NULL", "write null"},
    };
    struct str word = word_at(text, at);
    struct policy_shape ctx = ctx_schema();
    struct policy_shape member;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (str_is(word, words[i][0])) {
            return words[i][1];
        }
    }
    bool is_member = word.len > 0 && (at == 0 || text.ptr[at - 1] != '.') &&
                     ctx.ops->member(&ctx, word, c->files->arena, &member);
    const char *remedy =
        is_member ? arena_printf(c->files->arena, "did you mean ctx.%.*s?", STR_ARG(word)) : NULL;
    return remedy ? remedy : "";
}

static void tell_compile_error(struct checker *c, const struct policy_condition_source *source,
                               struct policy_place place, const struct error *err)
{
    const struct tree_node *leaf;
    size_t at = policy_text_offset(source->text, err->line ? err->line : 1, err->column);
    size_t end = source->text.len;
    while (end > 0 && (unsigned char)source->text.ptr[end - 1] <= ' ') {
        end--;
    }
    at = at < end ? at : end; /* "unexpected end" is where the text ends, not below it */
    place.has_range = true;
    place.begin = (uint32_t)at;
    place.end = (uint32_t)at + 1;
    leaf = node_at(c, &place);
    size_t hash = leaf->type == TREE_MAP ? 0 : yaml_trap_comment(c->policy->document->lines, leaf);
    if (hash) {
        place.begin = (uint32_t)source->text.len;
        place.end = place.begin + 1;
        tell(c, &place, POLICY_SEVERITY_ERROR, "yaml-comment",
             "the expression is cut here: ' #' begins a comment in YAML",
             "put the expression in quotes, or use a block (|)");
        return;
    }
    tell(c, &place, POLICY_SEVERITY_ERROR, "expression-invalid",
         first_line(c->files->arena, err->text), remedy_of(c, source->text, at));
}

static void compile_leaf(struct checker *c, const struct policy_condition_source *source,
                         const struct policy_place *place)
{
    const struct policy_program *program;
    struct error err = {0};
    struct arena arena;
    if (source->text.len == 0 || source->text.len > POLICY_EXPRESSION_MAX_BYTES) {
        return; /* the model's checks tell it */
    }
    arena_init(&arena, CHECK_MEMORY_MAX_BYTES);
    if (policy_compile(c->files->env, source->text, &arena, &program, &err)) {
        tell_compile_error(c, source, *place, &err);
    } else if (!policy_program_may_be_bool(program)) {
        struct policy_place all = *place;
        char text[200];
        all.has_range = true;
        all.end = (uint32_t)source->text.len;
        (void)snprintf(text, sizeof text,
                       "the expression gives %.100s, and a condition must give bool",
                       policy_program_type(program));
        tell(c, &all, POLICY_SEVERITY_ERROR, "condition-not-bool", text, "");
    }
    arena_free(&arena);
}

static void compile_condition(struct checker *c, const struct policy_condition_source *source,
                              struct policy_place *place)
{
    if (source->kind == POLICY_CONDITION_MATCH || source->kind == POLICY_CONDITION_NOT) {
        compile_leaf(c, source, place);
        return;
    }
    if (place->depth >= POLICY_CONDITION_DEPTH_MAX || source->of_count > 256) {
        return;
    }
    for (size_t i = 0; i < source->of_count; i++) {
        place->path[place->depth++] = (uint8_t)i;
        compile_condition(c, &source->of[i], place);
        place->depth--;
    }
}

/* "condition: all.of[1].match: …": takes the place off the front of the text. */
static const char *take_place(const char *text, struct policy_place *place)
{
    static const char prefix[] = "condition: ";
    if (strncmp(text, prefix, sizeof prefix - 1) != 0) {
        return text;
    }
    text += sizeof prefix - 1;
    for (;;) {
        const char *of = strstr(text, ".of[");
        const char *colon = strchr(text, ':');
        if (!of || !colon || of > colon || place->depth >= POLICY_CONDITION_DEPTH_MAX) {
            return text;
        }
        char *end;
        place->path[place->depth++] = (uint8_t)strtoul(of + 4, &end, 10);
        text = *end == ']' && (end[1] == ':' || end[1] == '.') ? end + 2 : end;
        text += *text == ' ';
    }
}

/* Adds `part` to a set of its own and tells what the model has against it. The words that name
 * policy and rule are cut off: the place says it. */
static void check_part(struct checker *c, const struct policy_source *part,
                       struct policy_place place, unsigned colons)
{
    struct policy_set_builder *b = policy_set_builder_new(c->files->env, POLICY_SET_INLINE, 0);
    struct error err = {0};
    if (b && policy_set_add(b, part, &err)) {
        const char *text = err.text;
        for (unsigned i = 0; i < colons && strstr(text, ": "); i++) {
            text = strstr(text, ": ") + 2;
        }
        text = take_place(text, &place);
        place.has_range = place.depth > 0;
        tell(c, &place, POLICY_SEVERITY_ERROR, "policy-invalid", first_line(c->files->arena, text),
             "");
    }
    policy_set_builder_free(b);
}

static void check_head(struct checker *c, const struct policy_source *source)
{
    struct policy_place place = {.section = POLICY_SECTION_POLICY};
    struct policy_source head = *source;
    bool is_too_long =
        source->rule_count > POLICY_RULES_MAX || source->enforcement_rule_count > POLICY_RULES_MAX;
    const char *problem = c->policy->is_inline ? NULL : policy_name_problem(source->name);
    if (problem) {
        char text[200];
        (void)snprintf(text, sizeof text, "the name is not valid: %s", problem);
        const struct tree_node *tree = c->policy->document->tree;
        struct diagnostic d = {.severity = POLICY_SEVERITY_ERROR,
                               .code = "policy-invalid",
                               .text = text,
                               .subject = subject_of(c, &place)};
        policy_files_tell(c->files, c->policy->document,
                          or_else(tree_member(tree_member(tree, "metadata"), "name"), tree), 0, 0,
                          &d);
        c->policy->is_broken = true;
    }
    head.name = c->policy->is_inline ? source->name : STR_NONE;
    if (!is_too_long) {
        head.rule_count = 0;
        head.enforcement_rule_count = 0;
    }
    check_part(c, &head, place, 1);
}

static void check_rule(struct checker *c, const struct policy_source *source, size_t i)
{
    struct policy_place place = {.section = POLICY_SECTION_RULE, .rule_index = i};
    struct policy_rule_source rule = source->rules[i];
    struct policy_source one = {.attrs = policy_null(), .rules = &rule, .rule_count = 1};
    c->policy->is_broken = false;
    compile_condition(c, &rule.condition, &place);
    if (!c->policy->is_broken) {
        rule.name = rule.name.len > POLICY_NAME_MAX_BYTES ? rule.name : STR_NONE;
        check_part(c, &one, place, 2);
    }
}

static void check_enforcement(struct checker *c, const struct policy_source *source, size_t i)
{
    struct policy_place place = {.section = POLICY_SECTION_ENFORCEMENT, .rule_index = i};
    struct policy_source one = {.attrs = policy_null(),
                                .enforcement_rules = &source->enforcement_rules[i],
                                .enforcement_rule_count = 1};
    c->policy->is_broken = false;
    compile_condition(c, &source->enforcement_rules[i].condition, &place);
    if (!c->policy->is_broken) {
        check_part(c, &one, place, 2);
    }
}

static void check_policy(struct policy_files *files, size_t i)
{
    struct checker c = {files, &files->policies[i]};
    const struct policy_source *source = &files->sources[i];
    bool is_broken = false;
    check_head(&c, source);
    is_broken = c.policy->is_broken;
    for (size_t k = 0; k < source->rule_count; k++) {
        check_rule(&c, source, k);
        is_broken |= c.policy->is_broken;
    }
    for (size_t k = 0; k < source->enforcement_rule_count; k++) {
        check_enforcement(&c, source, k);
        is_broken |= c.policy->is_broken;
    }
    c.policy->is_broken = is_broken;
}

static void keep_finding(void *arg, const struct policy_finding *finding)
{
    struct policy_files *files = arg;
    struct checker c = {files, &files->policies[finding->policy]};
    const struct policy_finding_kind *kind = policy_finding_kind(finding->code);
    tell(&c, &finding->place, kind->severity, kind->code, finding->text, finding->remedy);
}

/* The policies that the files may refer to: names in order, and the set in force. */
struct known_policies {
    struct str *names;
    size_t count;
    const struct policy_set *in_force; /* NULL: not known */
};

static int compare_names(const void *x, const void *y)
{
    return str_cmp(*(const struct str *)x, *(const struct str *)y);
}

/* None when memory is out: then too many references are told, rather than too few. */
static struct known_policies know_policies(struct policy_files *files)
{
    const struct system_policy *system;
    struct known_policies known = {.in_force = files->in_force};
    size_t room = files->policy_count;
    for (size_t i = 0; system_policy_at(i); i++) {
        room++;
    }
    known.names = arena_calloc(files->arena, room, sizeof *known.names);
    for (size_t i = 0; known.names && (system = system_policy_at(i)); i++) {
        known.names[known.count++] = str_from(system->name);
    }
    for (size_t i = 0; known.names && i < files->policy_count; i++) {
        if (!files->policies[i].is_inline) {
            known.names[known.count++] = files->sources[i].name;
        }
    }
    if (known.count > 0) {
        qsort(known.names, known.count, sizeof *known.names, compare_names);
    }
    return known;
}

static bool has_policy(const struct known_policies *known, struct str name)
{
    bool is_written =
        known->count > 0 && bsearch(&name, known->names, known->count, sizeof name, compare_names);
    return is_written || (known->in_force && policy_set_has(known->in_force, name));
}

static void tell_reference(struct policy_files *files, const struct policy_document *document,
                           const struct tree_node *node, const char *code, const char *what,
                           struct str name)
{
    char text[300];
    (void)snprintf(text, sizeof text, "%s '%.*s' is %s", what, STR_ARG(name),
                   files->in_force ? "neither in these files nor in force" : "not in these files");
    struct diagnostic d = {.severity = POLICY_SEVERITY_WARNING,
                           .code = code,
                           .text = text,
                           .remedy = files->in_force ? "apply is refused"
                                                     : "apply is refused unless the server has it"};
    policy_files_tell(files, document, or_else(node, document->tree), 0, 0, &d);
}

static void check_references(struct policy_files *files, const struct known_policies *known,
                             const struct policy_document *document)
{
    struct authorization a = authorization_of(document->message);
    const struct tree_node *authorization =
        tree_member(tree_member(document->tree, "spec"), "authorization");
    for (size_t i = 0; i < a.name_count; i++) {
        struct str name = str_from(a.names[i]);
        if (!has_policy(known, name)) {
            tell_reference(files, document, list_item(tree_member(authorization, "policies"), i),
                           "attached-missing", "the attached policy", name);
        }
    }
    const char *dot = strchr(document->name, '.');
    if (document->kind == STORE_POLICY && dot && !has_policy(known, str_from(dot + 1))) {
        tell_reference(files, document,
                       tree_member(tree_member(document->tree, "metadata"), "name"),
                       "parent-missing", "the parent", str_from(dot + 1));
    }
}

static int compare_documents(const void *x, const void *y)
{
    const struct policy_document *a = *(const struct policy_document *const *)x;
    const struct policy_document *b = *(const struct policy_document *const *)y;
    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

static void check_duplicates(struct policy_files *files)
{
    struct policy_document **sorted =
        arena_calloc(files->arena, files->document_count, sizeof(void *));
    if (!sorted || files->document_count == 0) {
        return;
    }
    memcpy(sorted, files->documents, files->document_count * sizeof(void *));
    qsort(sorted, files->document_count, sizeof(void *), compare_documents);
    for (size_t i = 1; i < files->document_count; i++) {
        const struct policy_document *d = sorted[i];
        const struct policy_document *other = sorted[i - 1];
        if (compare_documents(&sorted[i], &sorted[i - 1]) != 0) {
            continue;
        }
        char text[400];
        (void)snprintf(text, sizeof text, "%s '%.100s' is also in %.200s, line %u",
                       store_kind_info(d->kind)->kind, d->name, other->file, other->tree->line);
        struct diagnostic what = {
            .severity = POLICY_SEVERITY_ERROR, .code = "policy-duplicate", .text = text};
        policy_files_tell(files, d, d->tree, 0, 0, &what);
    }
}

void policy_files_check(struct policy_files *files, bool is_alone)
{
    for (size_t i = 0; i < files->policy_count; i++) {
        check_policy(files, i);
    }
    struct policy_lint lint = {
        .env = files->env, .ctx = ctx_schema(), .found = keep_finding, .arg = files};
    (void)policy_lint_policies(&lint, files->sources, files->policy_count);
    if (is_alone) {
        struct known_policies known = know_policies(files);
        check_duplicates(files);
        for (size_t i = 0; i < files->document_count; i++) {
            check_references(files, &known, files->documents[i]);
        }
    }
    diagnostics_sort(&files->diagnostics);
}
