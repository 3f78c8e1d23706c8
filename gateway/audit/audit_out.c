#include "gateway/audit/audit_out.h"

#include <protobuf-c/protobuf-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "gateway/audit/hex.h"
#include "gateway/audit/wall_time.h"
#include "gateway/state/resource.h"

enum {
    TOKEN_TAIL_MIN_BYTES = 16, /* as long as this after a token's prefix, it is masked */
};

static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* Length of the token that begins at s, 0 when there is none. The prefixes are those of
 * identity/token.h; a bearer token of somebody else's issuing is not for us to know. */
static size_t token_at(struct str s)
{
    static const char *const prefixes[] = {"cat_", "crt_", "cauth_", "csec_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        struct str prefix = str_from(prefixes[i]);
        if (!str_starts_with(s, prefix)) {
            continue;
        }
        size_t n = prefix.len;
        while (n < s.len && is_token_char(s.ptr[n])) {
            n++;
        }
        if (n - prefix.len >= TOKEN_TAIL_MIN_BYTES) {
            return n;
        }
    }
    return 0;
}

/* A text that is looked through from its beginning to its end. */
struct looking {
    struct str text;
    size_t plain_until; /* no userinfo begins in front of this */
};

/* Bytes from i on that may be the userinfo of a URL (RFC 3986 section 3.2.1), up to its '@'; 0 when
 * there are none. */
static size_t userinfo_length(struct looking *l, size_t i)
{
    const struct str s = l->text;
    size_t end = i;
    if (i < l->plain_until) {
        return 0;
    }
    while (end < s.len && (unsigned char)s.ptr[end] > ' ' && !strchr("@/'\"<>", s.ptr[end])) {
        end++;
    }
    l->plain_until = end; /* each byte is looked at once, however many ':' there are */
    return end < s.len && s.ptr[end] == '@' ? end - i : 0;
}

/* Length of the secret that follows byte i, 0 when none does: a password ("user:password@host"), or
 * all that stands before the host of a URL, which may be a token. An image's "name:tag@sha256:" is
 * neither. */
static size_t userinfo_after(struct looking *l, size_t i)
{
    const struct str s = l->text;
    bool is_scheme = i >= 2 && memcmp(s.ptr + i - 2, "://", 3) == 0;
    size_t n = is_scheme || s.ptr[i] == ':' ? userinfo_length(l, i + 1) : 0;
    struct str host = str_make(s.ptr + i + 1 + n, s.len - i - 1 - n);
    return str_starts_with(host, STR("@sha256:")) ? 0 : n;
}

static const char mask[] = "[redacted]";

/* Copies up to bytes_max of s, and a mask's length more at most; returns the length. */
static size_t redact(struct str s, size_t bytes_max, char *text)
{
    struct looking looking = {.text = s};
    size_t n = 0;
    size_t secret = token_at(s);
    for (size_t i = 0; i < s.len && n < bytes_max;) {
        if (secret > 0) {
            memcpy(text + n, mask, sizeof mask - 1);
            n += sizeof mask - 1;
            i += secret;
            secret = token_at(str_make(s.ptr + i, s.len - i));
            continue;
        }
        text[n++] = s.ptr[i];
        secret = userinfo_after(&looking, i++);
        secret = secret ? secret : token_at(str_make(s.ptr + i, s.len - i));
    }
    return n;
}

void audit_put_text(struct json_out *j, const char *key, struct str s)
{
    char text[AUDIT_TEXT_MAX_BYTES + sizeof mask];
    if (s.len == 0) {
        return;
    }
    size_t n = redact(s, AUDIT_TEXT_MAX_BYTES, text);
    if (key) {
        json_key(j, key);
    }
    json_string(j, str_make(text, n));
}

void audit_put_long_text(struct json_out *j, const char *key, struct str s, size_t bytes_max)
{
    size_t want = s.len < bytes_max ? s.len : bytes_max;
    char *text = want > 0 ? malloc(want + sizeof mask) : NULL;
    if (want > 0 && !text) {
        j->out->failed = true;
        return;
    }
    json_key(j, key);
    json_string(j, str_make(text, want > 0 ? redact(s, want, text) : 0));
    free(text);
}

void audit_put_time(struct json_out *j, const char *key, int64_t ns)
{
    char text[WALL_TIME_TEXT_SIZE];
    wall_time_format_ns(ns, text);
    json_key(j, key);
    json_cstring(j, text);
}

/* Octelium's form of a log id: groups of 4-4-24-4-4 hex digits. */
static void put_id(struct json_out *j)
{
    uint8_t b[20] = {0};
    char hex[41];
    char id[48];
    /* Without random bytes the id repeats; sequence and prev still tell the lines apart. */
    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b) {
        memset(b, 0, sizeof b);
    }
    hex_encode(b, sizeof b, hex);
    (void)snprintf(id, sizeof id, "%.4s-%.4s-%.24s-%.4s-%.4s", hex, hex + 4, hex + 8, hex + 32,
                   hex + 36);
    json_key(j, "id");
    json_cstring(j, id);
}

void audit_put_ref_parts(struct json_out *j, const char *key, const char *api_version,
                         const char *kind, const char *uid, const char *name, const char *version)
{
    json_key(j, key);
    json_begin_object(j);
    audit_put_text(j, "apiVersion", str_from(api_version));
    audit_put_text(j, "kind", str_from(kind));
    audit_put_text(j, "uid", str_from(uid));
    audit_put_text(j, "name", str_from(name));
    audit_put_text(j, "resourceVersion", str_from(version));
    json_end_object(j);
}

static const char *api_version_of(const ProtobufCMessage *m)
{
    return strncmp(m->descriptor->package_name, "octelium.api.main.core.", 23) == 0 ? "core/v1"
                                                                                    : "cordium/v1";
}

void audit_put_ref(struct json_out *j, const char *key, const void *message)
{
    const ProtobufCMessage *m = message;
    const Meta__Metadata *metadata = m ? resource_metadata(m) : NULL;
    if (metadata) {
        audit_put_ref_parts(j, key, api_version_of(m), m->descriptor->short_name, metadata->uid,
                            metadata->name, metadata->resource_version);
    }
}

void audit_begin_record(struct json_out *j, const char *api_version, const char *kind)
{
    json_begin_object(j);
    json_member_string(j, "apiVersion", api_version);
    json_member_string(j, "kind", kind);
}

void audit_begin_metadata(struct json_out *j, int64_t wall_ns)
{
    json_key(j, "metadata");
    json_begin_object(j);
    put_id(j);
    audit_put_time(j, "createdAt", wall_ns);
}

void audit_begin_event(struct json_out *j, const char *kind, const char *event, int64_t wall_ns)
{
    audit_begin_record(j, "cordium.ext/v1", kind);
    audit_begin_metadata(j, wall_ns);
    json_end_object(j);
    json_key(j, "cordium");
    json_begin_object(j);
    json_member_string(j, "event", event);
}

void audit_put_outcome(struct json_out *j, struct str json)
{
    if (json.len >= 2 && json.ptr[0] == '{' && !memchr(json.ptr, '\n', json.len)) {
        json_key(j, "outcome");
        json_raw(j, json);
    }
}

void audit_end_entry(struct json_out *j)
{
    json_end_object(j);
    json_end_object(j);
}
