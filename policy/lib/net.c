#include "policy/lib/net.h"

#include <stdio.h>

/* Addresses as text: RFC 4291 section 2.2 and RFC 5952. */

static bool take_decimal(struct str *s, unsigned most, unsigned *ret)
{
    unsigned v = 0;
    size_t digits = 0;
    while (digits < s->len && s->ptr[digits] >= '0' && s->ptr[digits] <= '9' && digits < 3) {
        v = v * 10 + (unsigned)(s->ptr[digits] - '0');
        digits++;
    }
    if (digits == 0 || v > most || (digits > 1 && s->ptr[0] == '0')) {
        return false;
    }
    *s = str_make(s->ptr + digits, s->len - digits);
    *ret = v;
    return true;
}

static bool parse_ipv4(struct str s, struct policy_address *a)
{
    for (int i = 0; i < 4; i++) {
        unsigned v;
        if (i > 0) {
            if (s.len == 0 || s.ptr[0] != '.') {
                return false;
            }
            s = str_make(s.ptr + 1, s.len - 1);
        }
        if (!take_decimal(&s, 255, &v)) {
            return false;
        }
        a->bytes[i] = (uint8_t)v;
    }
    a->family = 4;
    a->prefix = 32;
    return s.len == 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    char lower = (char)(c | 32);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool take_group(struct str *s, uint16_t *ret)
{
    unsigned v = 0;
    size_t digits = 0;
    while (digits < s->len && digits < 4 && hex_digit(s->ptr[digits]) >= 0) {
        v = v * 16 + (unsigned)hex_digit(s->ptr[digits]);
        digits++;
    }
    *s = str_make(s->ptr + digits, s->len - digits);
    *ret = (uint16_t)v;
    return digits > 0;
}

/* Groups into `groups`; *gap is where "::" stood, or -1. */
static int parse_groups(struct str s, uint16_t groups[8], int *gap)
{
    int count = 0;
    *gap = -1;
    if (str_starts_with(s, STR("::"))) {
        *gap = 0;
        s = str_make(s.ptr + 2, s.len - 2);
    }
    while (s.len > 0) {
        if (count == 8 || !take_group(&s, &groups[count])) {
            return -1;
        }
        count++;
        if (s.len == 0) {
            break;
        }
        if (str_starts_with(s, STR("::")) && *gap < 0) {
            *gap = count;
            s = str_make(s.ptr + 2, s.len - 2);
        } else if (s.len > 1 && s.ptr[0] == ':' && s.ptr[1] != ':') {
            s = str_make(s.ptr + 1, s.len - 1);
        } else {
            return -1;
        }
    }
    return count;
}

static bool parse_ipv6(struct str s, struct policy_address *a)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    uint16_t groups[8];
    int gap;
    int count = parse_groups(s, groups, &gap);
    if (count < 0 || (gap < 0 ? count != 8 : count > 7)) {
        return false;
    }
    uint8_t bytes[16] = {0};
    for (int i = 0; i < count; i++) {
        int at = gap >= 0 && i >= gap ? 8 - count + i : i;
        bytes[at * 2] = (uint8_t)(groups[i] >> 8);
        bytes[at * 2 + 1] = (uint8_t)groups[i];
    }
    if (memcmp(bytes, mapped, sizeof mapped) == 0) {
        memcpy(a->bytes, bytes + sizeof mapped, 4);
        a->family = 4;
        a->prefix = 32;
        return true;
    }
    memcpy(a->bytes, bytes, sizeof bytes);
    a->family = 6;
    a->prefix = 128;
    return true;
}

bool net_parse_ip(struct str s, struct policy_address *ret)
{
    struct policy_address a = {.family = 0};
    bool ok = s.len > 0 && memchr(s.ptr, ':', s.len) ? parse_ipv6(s, &a) : parse_ipv4(s, &a);
    if (ok) {
        *ret = a;
    }
    return ok;
}

bool net_parse_cidr(struct str s, struct policy_address *ret)
{
    struct policy_address a;
    const char *slash = s.len > 0 ? memchr(s.ptr, '/', s.len) : NULL;
    if (!slash) {
        return false;
    }
    size_t at = (size_t)(slash - s.ptr);
    struct str prefix = str_make(slash + 1, s.len - at - 1);
    bool is_mapped = false;
    unsigned bits;
    if (!net_parse_ip(str_make(s.ptr, at), &a)) {
        return false;
    }
    is_mapped = a.family == 4 && memchr(s.ptr, ':', at);
    if (!take_decimal(&prefix, is_mapped || a.family == 6 ? 128 : 32, &bits) || prefix.len > 0 ||
        (is_mapped && bits < 96)) {
        return false;
    }
    a.prefix = (uint8_t)(is_mapped ? bits - 96 : bits);
    *ret = a;
    return true;
}

/* RFC 5952: lower case, the longest run of two or more zero groups as "::". */
static size_t format_ipv6(const uint8_t *bytes, char out[NET_TEXT_MAX])
{
    int best_at = -1;
    int best_len = 1;
    for (int i = 0; i < 8; i++) {
        int run = 0;
        while (i + run < 8 && bytes[(i + run) * 2] == 0 && bytes[(i + run) * 2 + 1] == 0) {
            run++;
        }
        if (run > best_len) {
            best_at = i;
            best_len = run;
        }
        i += run;
    }
    size_t len = 0;
    for (int i = 0; i < 8; i++) {
        if (i == best_at) {
            out[len++] = ':';
            out[len++] = ':';
            i += best_len - 1;
            continue;
        }
        bool colon = len > 0 && out[len - 1] != ':';
        int n = snprintf(out + len, NET_TEXT_MAX - len, "%s%x", colon ? ":" : "",
                         (unsigned)bytes[i * 2] << 8 | bytes[i * 2 + 1]);
        len += (size_t)n;
    }
    return len;
}

size_t net_format(struct policy_value v, char out[NET_TEXT_MAX])
{
    const struct policy_address *a = v.as.address;
    size_t len;
    if (a->family == 4) {
        len = (size_t)snprintf(out, NET_TEXT_MAX, "%u.%u.%u.%u", a->bytes[0], a->bytes[1],
                               a->bytes[2], a->bytes[3]);
    } else {
        len = format_ipv6(a->bytes, out);
    }
    if (v.kind == POLICY_CIDR) {
        len += (size_t)snprintf(out + len, NET_TEXT_MAX - len, "/%u", a->prefix);
    }
    return len;
}

bool net_contains(const struct policy_address *network, const struct policy_address *address)
{
    if (network->family != address->family) {
        return false;
    }
    size_t whole = network->prefix / 8;
    unsigned rest = network->prefix % 8;
    if (memcmp(network->bytes, address->bytes, whole) != 0) {
        return false;
    }
    unsigned mask = 0xFF00U >> rest & 0xFF;
    return rest == 0 || ((network->bytes[whole] ^ address->bytes[whole]) & mask) == 0;
}
