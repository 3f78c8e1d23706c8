#include "executor/image/dockerfile.h"

#include <ctype.h>
#include <strings.h>

enum { HEREDOC_NAME_MAX = 64 };

struct reader {
    char escape;
    bool directives;    /* still at the top, where `# escape=` counts */
    bool continued;     /* the instruction goes on with this line */
    bool in_from;       /* and that instruction is a FROM */
    struct str heredoc; /* its end, while inside one */
    bool heredoc_tabs;  /* <<- : leading tabs are not part of the end */
};

static struct str trim(struct str s)
{
    while (s.len > 0 && isspace((unsigned char)s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && isspace((unsigned char)s.ptr[s.len - 1])) {
        s.len--;
    }
    return s;
}

static struct str take_line(struct str *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->ptr, '\n', rest->len) : NULL;
    size_t n = end ? (size_t)(end - rest->ptr) + 1 : rest->len;
    struct str line = {rest->ptr, n};

    rest->ptr += n;
    rest->len -= n;
    return line;
}

static bool is_instruction(struct str line, const char *name)
{
    size_t n = strlen(name);
    return line.len > n && strncasecmp(line.ptr, name, n) == 0 &&
           isspace((unsigned char)line.ptr[n]);
}

/* "# escape=`" as one of the first lines (Dockerfile reference, "Parser directives"). */
static void take_directive(struct reader *r, struct str line)
{
    struct str s = trim((struct str){line.ptr + 1, line.len - 1});

    if (s.len < 6 || strncasecmp(s.ptr, "escape", 6) != 0) {
        return;
    }
    s = trim((struct str){s.ptr + 6, s.len - 6});
    if (s.len < 2 || s.ptr[0] != '=') {
        return;
    }
    s = trim((struct str){s.ptr + 1, s.len - 1});
    if (s.len == 1 && (s.ptr[0] == '`' || s.ptr[0] == '\\')) {
        r->escape = s.ptr[0];
    }
}

/* The first here-document that a RUN, COPY or ADD line begins: <<EOF, <<-EOF, <<"EOF". */
static void take_heredoc(struct reader *r, struct str line)
{
    for (size_t i = 0; i + 2 < line.len; i++) {
        if (line.ptr[i] != '<' || line.ptr[i + 1] != '<' || line.ptr[i + 2] == '<') {
            continue;
        }
        size_t k = i + 2;
        bool tabs = line.ptr[k] == '-';
        k += tabs;
        k += k < line.len && (line.ptr[k] == '"' || line.ptr[k] == '\'');
        size_t start = k;
        while (k < line.len && (isalnum((unsigned char)line.ptr[k]) || line.ptr[k] == '_')) {
            k++;
        }
        if (k > start && k - start <= HEREDOC_NAME_MAX) {
            r->heredoc = (struct str){line.ptr + start, k - start};
            r->heredoc_tabs = tabs;
            return;
        }
    }
}

static bool heredoc_ends(const struct reader *r, struct str line)
{
    while (line.len > 0 && (line.ptr[line.len - 1] == '\n' || line.ptr[line.len - 1] == '\r')) {
        line.len--;
    }
    while (r->heredoc_tabs && line.len > 0 && line.ptr[0] == '\t') {
        line.ptr++;
        line.len--;
    }
    return str_eq(line, r->heredoc);
}

/* Returns true when a FROM ends with this line. */
static bool take(struct reader *r, struct str line)
{
    struct str s = trim(line);

    if (r->heredoc.len > 0) {
        if (heredoc_ends(r, line)) {
            r->heredoc = STR_NONE;
        }
        return false;
    }
    if (s.len > 0 && s.ptr[0] == '#') {
        if (r->directives) {
            take_directive(r, s);
        }
        return false; /* a comment, also between the lines of one instruction */
    }
    r->directives = false;
    if (s.len == 0) {
        return false;
    }
    if (!r->continued) {
        r->in_from = is_instruction(s, "FROM");
    }
    r->continued = s.ptr[s.len - 1] == r->escape;
    if (!r->in_from && !r->continued &&
        (is_instruction(s, "RUN") || is_instruction(s, "COPY") || is_instruction(s, "ADD"))) {
        take_heredoc(r, s);
    }
    return r->in_from && !r->continued;
}

int dockerfile_add_args(struct str text, const char *const *names, size_t count, struct buf *out,
                        struct error *err)
{
    struct reader r = {.escape = '\\', .directives = true};
    bool has_from = false;

    if (text.len > DOCKERFILE_MAX) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Dockerfile is larger than %d bytes",
                         DOCKERFILE_MAX);
    }
    if (str_has_nul(text)) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "Dockerfile has a NUL byte");
    }
    while (text.len > 0) {
        struct str line = take_line(&text);
        bool from_ends = take(&r, line);
        buf_add_str(out, line);
        if (from_ends) {
            has_from = true;
            buf_add_cstr(out, line.ptr[line.len - 1] == '\n' ? "" : "\n");
            for (size_t i = 0; i < count; i++) {
                buf_printf(out, "ARG %s\n", names[i]);
            }
        }
    }
    if (out->failed) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for the Dockerfile");
    }
    if (!has_from) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Dockerfile has no FROM instruction; begin it with `FROM <image>`");
    }
    return 0;
}
