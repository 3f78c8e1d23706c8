#include "gateway/policyfile/format.h"

#include "gateway/text/yaml_place.h"
#include "gateway/text/yaml_reader.h"

enum { DOCUMENTS_MAX = 10000, KNOWN_LAST = 1000 };

/* A line of the file, as far as comments go. */
struct source_line {
    struct str text;   /* without indentation */
    struct str behind; /* the comment behind something else; empty: none */
    bool is_comment;   /* it is nothing else */
    bool is_blank;
    bool is_inside; /* of a scalar of several lines */
    bool is_used;   /* as a comment or blank line */
    bool is_behind_used;
};

struct formatter {
    struct str file;
    struct text_lines places;
    struct source_line *lines; /* by number from 1 */
    uint8_t *is_scalar_byte;   /* of each byte of the file: keys and values */
    size_t line_count;
    size_t next_line; /* the first that may hold comments for what comes */
    struct buf *out;
    struct arena *arena;
    struct error *err;
    bool is_first; /* nothing of this document was written */
};

/* Members in the order in which they are read best; others follow in their own order. */
static const char *const member_order[] = {
    "apiVersion", "kind",     "metadata",         "name",  "displayName",    "description",
    "labels",     "tags",     "annotations",      "spec",  "isDisabled",     "type",
    "attrs",      "groups",   "enforcementRules", "rules", "authorization",  "policies",
    "effect",     "priority", "condition",        "match", "inlinePolicies",
};

static bool holds_data(struct str key)
{
    return str_is(key, "attrs") || str_is(key, "labels") || str_is(key, "annotations") ||
           str_is(key, "ctx");
}

static size_t rank_of(struct str key)
{
    for (size_t i = 0; i < sizeof member_order / sizeof member_order[0]; i++) {
        if (str_is(key, member_order[i])) {
            return i;
        }
    }
    return KNOWN_LAST;
}

static bool split_lines(struct formatter *f)
{
    size_t count = 2;
    for (size_t i = 0; i < f->file.len; i++) {
        count += f->file.ptr[i] == '\n';
    }
    f->lines = arena_calloc(f->arena, count + 1, sizeof *f->lines);
    f->is_scalar_byte = arena_zalloc(f->arena, f->file.len + 1);
    if (!f->lines || !f->is_scalar_byte || !text_lines_find(&f->places, f->file, f->arena)) {
        return false;
    }
    size_t at = 0;
    while (at < f->file.len) {
        struct str line = text_line_at(f->file, at);
        struct source_line *to = &f->lines[++f->line_count];
        size_t lead = 0;
        while (lead < line.len && line.ptr[lead] == ' ') {
            lead++;
        }
        to->text = str_make(line.ptr + lead, line.len - lead);
        to->is_blank = to->text.len == 0;
        to->is_comment = to->text.len > 0 && to->text.ptr[0] == '#';
        at += line.len;
        while (at < f->file.len && f->file.ptr[at] != '\n') {
            at++;
        }
        at++;
    }
    return true;
}

static bool is_scalar(const struct tree_node *n)
{
    return n->type != TREE_MAP && n->type != TREE_LIST;
}

/* Marks what the characters of a key or value take in the file. */
static void mark_bytes(struct formatter *f, size_t begin, size_t end)
{
    for (size_t i = begin; i < end && i < f->file.len; i++) {
        f->is_scalar_byte[i] = 1;
    }
}

/* Where a key that begins at `at` ends: behind its quotes, if it has some. */
static size_t key_end(const struct formatter *f, size_t at, size_t len)
{
    char quote = at < f->file.len ? f->file.ptr[at] : '\0';
    if (quote != '"' && quote != '\'') {
        return at + len;
    }
    size_t i = at + 1;
    while (i < f->file.len && (f->file.ptr[i] != quote || f->file.ptr[i - 1] == '\\')) {
        i++;
    }
    return i + 1;
}

/* Marks the bytes of scalars, and the lines that belong to those of several lines. */
static void mark_scalars(struct formatter *f, const struct tree_node *n)
{
    if (n->key.len > 0) {
        size_t begin = text_place_at(&f->places, n->key_line, n->key_column).offset;
        mark_bytes(f, begin, key_end(f, begin, n->key.len));
    }
    if (is_scalar(n)) {
        size_t begin = text_place_at(&f->places, n->line, n->column).offset;
        struct text_place end = yaml_place_of(&f->places, n, n->text.len);
        bool is_block = !n->is_plain && begin < f->file.len && strchr("|>", f->file.ptr[begin]);
        uint32_t last = end.line;
        last -=
            is_block && last > n->line && n->text.len > 0 && n->text.ptr[n->text.len - 1] == '\n'
                ? 1
                : 0;
        for (uint32_t i = n->line + 1; i <= last && i <= f->line_count; i++) {
            f->lines[i].is_inside = true;
        }
        if (is_block) {
            size_t below = text_place_at(&f->places, n->line + 1, 1).offset;
            struct str line = text_line_at(f->file, text_place_at(&f->places, last, 1).offset);
            mark_bytes(f, below, (size_t)(line.ptr - f->file.ptr) + line.len);
        } else {
            mark_bytes(f, begin, end.offset);
        }
        return;
    }
    for (const struct tree_node *c = n->first; c; c = c->next) {
        mark_scalars(f, c);
    }
}

/* Finds comments behind something: '#' after a blank, in no scalar. Lines inside of blocks have
 * none. */
static void find_behind(struct formatter *f)
{
    for (size_t i = 1; i <= f->line_count; i++) {
        struct source_line *l = &f->lines[i];
        size_t begin = (size_t)(l->text.ptr - f->file.ptr);
        for (size_t k = 1; !l->is_comment && k < l->text.len; k++) {
            bool is_blank_before = l->text.ptr[k - 1] == ' ' || l->text.ptr[k - 1] == '\t';
            if (l->text.ptr[k] == '#' && is_blank_before && !f->is_scalar_byte[begin + k]) {
                l->behind = str_make(l->text.ptr + k, l->text.len - k);
                break;
            }
        }
    }
}

static void indent(struct formatter *f, unsigned depth)
{
    for (unsigned i = 0; i < depth; i++) {
        buf_add_cstr(f->out, "  ");
    }
}

static void put_comment(struct formatter *f, struct str text, unsigned depth)
{
    while (text.len > 0 && strchr(" \t\r", text.ptr[text.len - 1])) {
        text.len--;
    }
    f->is_first = false;
    indent(f, depth);
    buf_add_str(f->out, text);
    buf_add_u8(f->out, '\n');
}

/* The comments right above a line and behind what is on it, and whether a blank line stands above
 * them. */
static void put_comments(struct formatter *f, uint32_t line, unsigned depth)
{
    uint32_t first = line;
    while (first > 1 && !f->lines[first - 1].is_inside && !f->lines[first - 1].is_used &&
           (f->lines[first - 1].is_comment || f->lines[first - 1].is_blank)) {
        first--;
    }
    bool wants_blank = false;
    for (uint32_t i = first; i < line; i++) {
        struct source_line *l = &f->lines[i];
        l->is_used = true;
        if (l->is_blank) {
            wants_blank = !f->is_first;
            continue;
        }
        if (wants_blank) {
            buf_add_u8(f->out, '\n');
        }
        wants_blank = false;
        put_comment(f, l->text, depth);
    }
    if (wants_blank) {
        buf_add_u8(f->out, '\n');
    }
    struct source_line *own = line <= f->line_count ? &f->lines[line] : NULL;
    if (own && own->behind.len > 0 && !own->is_behind_used) {
        own->is_behind_used = true;
        put_comment(f, own->behind, depth);
    }
}

/* Would YAML read the text without quotes as the same text? Errs on the side of quotes. */
static bool is_plain_safe(struct str s)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n"};
    char first = s.len ? s.ptr[0] : '\0';
    bool begins_well = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') ||
                       first == '/' || first == '_' || first == '(';
    if (!begins_well || s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == ':') {
        return false;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (s.len == strlen(words[i]) && strncasecmp(s.ptr, words[i], s.len) == 0) {
            return false;
        }
    }
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        bool splits = (c == ':' && i + 1 < s.len && s.ptr[i + 1] == ' ') ||
                      (c == '#' && i > 0 && s.ptr[i - 1] == ' ');
        if (c < ' ' || c == 127 || splits) {
            return false;
        }
    }
    return true;
}

static void put_quoted(struct formatter *f, struct str s)
{
    bool has_control = false;
    for (size_t i = 0; i < s.len; i++) {
        has_control |= (unsigned char)s.ptr[i] < ' ' || s.ptr[i] == 127;
    }
    char quote = has_control ? '"' : '\'';
    buf_add_u8(f->out, (uint8_t)quote);
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (!has_control && c == '\'') {
            buf_add_cstr(f->out, "''");
        } else if (has_control && (c == '"' || c == '\\')) {
            buf_printf(f->out, "\\%c", c);
        } else if (c < ' ' || c == 127) {
            buf_printf(f->out, "\\x%02x", c);
        } else {
            buf_add_u8(f->out, c);
        }
    }
    buf_add_u8(f->out, (uint8_t)quote);
}

/* Can the text stand as a literal block? */
static bool is_block_text(struct str s)
{
    bool has_break = false;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        has_break |= c == '\n';
        if ((c < ' ' && c != '\n') || c == 127) {
            return false;
        }
    }
    return has_break && s.ptr[0] != ' ' && s.ptr[0] != '\n';
}

static void put_block(struct formatter *f, struct str s, unsigned depth)
{
    size_t breaks = 0;
    while (breaks < s.len && s.ptr[s.len - 1 - breaks] == '\n') {
        breaks++;
    }
    buf_add_cstr(f->out, breaks == 0 ? " |-\n" : breaks == 1 ? " |\n" : " |+\n");
    for (size_t at = 0; at < s.len;) {
        const char *newline = memchr(s.ptr + at, '\n', s.len - at);
        size_t end = newline ? (size_t)(newline - s.ptr) : s.len;
        if (end > at) {
            indent(f, depth);
            buf_add(f->out, s.ptr + at, end - at);
        }
        buf_add_u8(f->out, '\n');
        at = end + 1;
    }
}

/* After "key:" or "-": the scalar and the end of the line. */
static void put_scalar(struct formatter *f, const struct tree_node *n, unsigned depth)
{
    struct str s = n->text;
    if (n->type == TREE_STRING && is_block_text(s)) {
        put_block(f, s, depth);
        return;
    }
    if (n->type == TREE_NULL && s.len == 0) {
        buf_add_u8(f->out, '\n');
        return;
    }
    buf_add_u8(f->out, ' ');
    if (n->is_plain || is_plain_safe(s)) {
        buf_add_str(f->out, s);
    } else {
        put_quoted(f, s);
    }
    buf_add_u8(f->out, '\n');
}

static int put_members(struct formatter *f, const struct tree_node *map, unsigned depth,
                       bool on_item_line);

/* The member of a map that is written first. */
static const struct tree_node *first_member(const struct tree_node *map)
{
    const struct tree_node *first = map->first;
    for (const struct tree_node *n = first; n && !holds_data(map->key); n = n->next) {
        first = rank_of(n->key) < rank_of(first->key) ? n : first;
    }
    return first;
}

static int put_list(struct formatter *f, const struct tree_node *list, unsigned depth)
{
    for (const struct tree_node *n = list->first; n; n = n->next) {
        put_comments(f, n->line, depth);
        if (n->type == TREE_MAP && n->first) {
            put_comments(f, first_member(n)->key_line, depth); /* it has no line of its own */
        }
        indent(f, depth);
        buf_add_u8(f->out, '-');
        int rc = 0;
        if (is_scalar(n)) {
            put_scalar(f, n, depth + 1);
        } else if (n->count == 0) {
            buf_add_cstr(f->out, n->type == TREE_MAP ? " {}\n" : " []\n");
        } else if (n->type == TREE_MAP) {
            buf_add_u8(f->out, ' ');
            rc = put_members(f, n, depth + 1, true);
        } else {
            rc = error_set_at(f->err, STATUS_INVALID_ARGUMENT, n->line, n->column,
                              "a list right inside of a list is not formatted");
        }
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int put_member(struct formatter *f, const struct tree_node *n, unsigned depth,
                      bool on_item_line)
{
    if (!on_item_line) {
        put_comments(f, n->key_line, depth);
        indent(f, depth);
    }
    f->is_first = false;
    if (is_plain_safe(n->key)) {
        buf_add_str(f->out, n->key);
    } else {
        put_quoted(f, n->key);
    }
    buf_add_u8(f->out, ':');
    if (is_scalar(n)) {
        put_scalar(f, n, depth + 1);
        return 0;
    }
    if (n->count == 0) {
        buf_add_cstr(f->out, n->type == TREE_MAP ? " {}\n" : " []\n");
        return 0;
    }
    buf_add_u8(f->out, '\n');
    return n->type == TREE_MAP ? put_members(f, n, depth + 1, false) : put_list(f, n, depth + 1);
}

/* In the order of ranks; equal ones as they stand. */
static int put_members(struct formatter *f, const struct tree_node *map, unsigned depth,
                       bool on_item_line)
{
    bool is_data = holds_data(map->key);
    size_t done = 0;
    for (size_t rank = 0; rank <= KNOWN_LAST && done < map->count; rank++) {
        for (const struct tree_node *n = map->first; n; n = n->next) {
            if ((is_data ? KNOWN_LAST : rank_of(n->key)) != rank) {
                continue;
            }
            int rc = put_member(f, n, depth, on_item_line && done == 0);
            if (rc) {
                return rc;
            }
            done++;
        }
    }
    return 0;
}

static bool same_tree(const struct tree_node *a, const struct tree_node *b)
{
    if (a->type != b->type || a->count != b->count || !str_eq(a->text, b->text)) {
        return false;
    }
    const struct tree_node *y = b->first;
    for (const struct tree_node *x = a->first; x; x = x->next, y = y ? y->next : NULL) {
        const struct tree_node *other = y;
        if (a->type == TREE_MAP) {
            other = b->first;
            while (other && !str_eq(other->key, x->key)) {
                other = other->next;
            }
        }
        if (!other || !same_tree(x, other)) {
            return false;
        }
    }
    return true;
}

static int read_all(struct str text, struct arena *arena, const struct tree_node ***ret,
                    size_t *ret_count, struct error *err)
{
    struct yaml_stream *stream = NULL;
    const struct tree_node **trees = arena_calloc(arena, DOCUMENTS_MAX, sizeof *trees);
    int rc = trees ? yaml_stream_open(text, &stream, err)
                   : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    if (rc) {
        return rc;
    }
    size_t count = 0;
    while (rc == 0 && count < DOCUMENTS_MAX) {
        rc = yaml_stream_next(stream, arena, &trees[count], err);
        if (rc || !trees[count]) {
            break;
        }
        count++;
    }
    yaml_stream_close(stream);
    *ret = trees;
    *ret_count = count;
    return rc;
}

/* The result must say the same and hold each comment. */
static int verify(struct formatter *f, const struct tree_node *const *trees, size_t count)
{
    const struct tree_node **again;
    size_t again_count;
    int rc = read_all(buf_str(f->out), f->arena, &again, &again_count, f->err);
    for (size_t i = 1; rc == 0 && i <= f->line_count; i++) {
        const struct source_line *l = &f->lines[i];
        bool is_lost = (l->is_comment && !l->is_inside && !l->is_used) ||
                       (l->behind.len > 0 && !l->is_behind_used);
        if (is_lost) {
            return error_set_at(f->err, STATUS_INVALID_ARGUMENT, (uint32_t)i, 1,
                                "this comment cannot be kept in its place; move it above a member");
        }
    }
    bool is_same = rc == 0 && again_count == count;
    for (size_t i = 0; is_same && i < count; i++) {
        is_same = same_tree(trees[i], again[i]);
    }
    return rc || is_same
               ? rc
               : error_set(f->err, STATUS_INTERNAL,
                           "the formatted text would not read back to the same documents");
}

int policy_format(struct str text, struct arena *arena, struct buf *out, struct error *err)
{
    const struct tree_node **trees;
    size_t count;
    struct formatter f = {.file = text, .arena = arena, .out = out, .err = err};
    int rc = read_all(text, arena, &trees, &count, err);
    if (rc == 0 && !split_lines(&f)) {
        rc = error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (size_t i = 0; rc == 0 && i < count; i++) {
        mark_scalars(&f, trees[i]);
    }
    if (rc == 0) {
        find_behind(&f);
    }
    for (size_t i = 0; rc == 0 && i < count; i++) {
        if (trees[i]->type != TREE_MAP) {
            rc = error_set_at(err, STATUS_INVALID_ARGUMENT, trees[i]->line, trees[i]->column,
                              "a document must be a map");
        }
        if (rc == 0 && i > 0) {
            buf_add_cstr(out, "---\n");
        }
        f.is_first = true;
        rc = rc ? rc : put_members(&f, trees[i], 0, false);
    }
    /* What stands at the end of the file is about all of it. */
    if (rc == 0) {
        f.is_first = out->len == 0;
        uint32_t end = (uint32_t)f.line_count;
        while (end > 0 && f.lines[end].is_blank) {
            end--;
        }
        put_comments(&f, end + 1, 0);
    }
    if (rc == 0 && out->failed) {
        rc = error_set(err, STATUS_RESOURCE_EXHAUSTED, "the file is too large");
    }
    return rc ? rc : verify(&f, trees, count);
}
