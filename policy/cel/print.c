#include "policy/policy.h"

#include <math.h>
#include <stdio.h>

#include "policy/cel/value.h"
#include "policy/lib/net.h"
#include "policy/lib/numbers.h"
#include "policy/lib/time.h"

enum { PRINT_DEPTH_MAX = 32, PRINT_ARENA_BYTES = 64 << 10 };

/* Values as CEL text. The budget is looked at before each part, so that it is overrun by one
 * part at most, which is cut too. */
struct printer {
    struct buf *out;
    size_t end; /* of out->len */
    struct arena arena;
};

static bool is_full(const struct printer *p)
{
    return p->out->len >= p->end || p->out->failed;
}

static void print_quoted(struct printer *p, struct policy_value v)
{
    buf_add_cstr(p->out, v.kind == POLICY_BYTES ? "b\"" : "\"");
    for (uint32_t i = 0; i < v.len && !is_full(p); i++) {
        unsigned char c = (unsigned char)v.as.text[i];
        unsigned char next = i + 1 < v.len ? (unsigned char)v.as.text[i + 1] : 0;
        if (c == 0xC2 && next >= 0x80 && next < 0xA0 && v.kind == POLICY_STRING) {
            /* U+0080 to U+009F steer terminals too. */
            buf_printf(p->out, "\\u%04x", next);
            i++;
        } else if (c == '"' || c == '\\') {
            buf_printf(p->out, "\\%c", c);
        } else if (c < ' ' || c == 127 || (c > 127 && v.kind == POLICY_BYTES)) {
            buf_printf(p->out, "\\x%02x", c);
        } else {
            buf_add_u8(p->out, c);
        }
    }
    buf_add_cstr(p->out, "\"");
}

static void print_value(struct printer *p, struct policy_value v, unsigned depth);

static void print_list(struct printer *p, const struct policy_list *list, unsigned depth)
{
    size_t count = policy_list_size(list);
    buf_add_cstr(p->out, "[");
    for (size_t i = 0; i < count && !is_full(p); i++) {
        struct policy_value item;
        if (policy_list_get(list, i, &p->arena, &item)) {
            break;
        }
        buf_add_cstr(p->out, i > 0 ? ", " : "");
        print_value(p, item, depth + 1);
    }
    buf_add_cstr(p->out, "]");
}

static void print_map(struct printer *p, const struct policy_map *map, unsigned depth)
{
    size_t cursor = 0;
    struct policy_value key;
    struct policy_value value;
    bool first = true;
    buf_add_cstr(p->out, "{");
    while (!is_full(p) && policy_map_next(map, &cursor, &p->arena, &key, &value) == 1) {
        buf_add_cstr(p->out, first ? "" : ", ");
        first = false;
        print_value(p, key, depth + 1);
        buf_add_cstr(p->out, ": ");
        print_value(p, value, depth + 1);
    }
    buf_add_cstr(p->out, "}");
}

static void print_double(struct printer *p, double d)
{
    char text[NUMBER_TEXT_MAX];
    if (isnan(d) || isinf(d)) {
        buf_printf(p->out, "double(\"%s\")", isnan(d) ? "NaN" : d > 0 ? "Infinity" : "-Infinity");
        return;
    }
    size_t len = number_format_double(d, text);
    bool plain = !memchr(text, '.', len) && !memchr(text, 'e', len);
    buf_printf(p->out, "%.*s%s", (int)len, text, plain ? ".0" : "");
}

static void print_optional(struct printer *p, struct policy_value v, unsigned depth)
{
    if (!v.as.inner) {
        buf_add_cstr(p->out, "optional.none()");
        return;
    }
    buf_add_cstr(p->out, "optional.of(");
    print_value(p, *v.as.inner, depth + 1);
    buf_add_cstr(p->out, ")");
}

static void print_scalar(struct printer *p, struct policy_value v)
{
    char text[TIME_TEXT_MAX];
    switch (v.kind) {
    case POLICY_NULL:
        buf_add_cstr(p->out, "null");
        break;
    case POLICY_BOOL:
        buf_add_cstr(p->out, v.as.truth ? "true" : "false");
        break;
    case POLICY_INT:
        buf_printf(p->out, "%lld", (long long)v.as.i);
        break;
    case POLICY_UINT:
        buf_printf(p->out, "%lluu", (unsigned long long)v.as.u);
        break;
    case POLICY_DOUBLE:
        print_double(p, v.as.d);
        break;
    case POLICY_TIMESTAMP:
        buf_printf(p->out, "timestamp(\"%.*s\")", (int)time_format_timestamp(v, text), text);
        break;
    case POLICY_DURATION:
        buf_printf(p->out, "duration(\"%.*s\")", (int)time_format_duration(v, text), text);
        break;
    case POLICY_IP:
    case POLICY_CIDR:
        buf_printf(p->out, "%s(\"%.*s\")", v.kind == POLICY_IP ? "ip" : "cidr",
                   (int)net_format(v, text), text);
        break;
    case POLICY_TYPE:
        buf_add_str(p->out, policy_value_str(v));
        break;
    default:
        buf_add_cstr(p->out, "absent");
        break;
    }
}

static void print_value(struct printer *p, struct policy_value v, unsigned depth)
{
    if (depth > PRINT_DEPTH_MAX) {
        buf_add_cstr(p->out, "...");
        return;
    }
    switch (v.kind) {
    case POLICY_STRING:
    case POLICY_BYTES:
        print_quoted(p, v);
        break;
    case POLICY_LIST:
        print_list(p, v.as.list, depth);
        break;
    case POLICY_MAP:
        print_map(p, v.as.map, depth);
        break;
    case POLICY_OPTIONAL:
        print_optional(p, v, depth);
        break;
    default:
        print_scalar(p, v);
        break;
    }
}

void policy_value_print(struct policy_value v, size_t bytes_max, struct buf *out)
{
    struct printer p = {.out = out, .end = out->len + bytes_max};
    arena_init(&p.arena, PRINT_ARENA_BYTES);
    print_value(&p, v, 0);
    arena_free(&p.arena);
    if (!out->failed && out->len > p.end) {
        /* Back to the end of a character. */
        size_t len = p.end;
        while (len > 0 && (out->ptr[len] & 0xC0) == 0x80) {
            len--;
        }
        out->len = len;
        buf_add_cstr(out, "...");
    }
}
