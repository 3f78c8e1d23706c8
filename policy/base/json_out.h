#ifndef BASE_JSON_OUT_H
#define BASE_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* Appends JSON (RFC 8259) to a buffer, on one line. Commas and quotes are put by the
 * writer; nesting is the caller's duty and is asserted. A full buffer shows in out->failed.
 *
 *     struct json_out j = json_out_to(&buf);
 *     json_begin_object(&j);
 *     json_key(&j, "name");
 *     json_string(&j, name);
 *     json_end_object(&j);
 */
struct json_out {
    struct buf *out;
    unsigned depth;
    uint64_t has_item; /* bit per depth: something was written there already */
    bool after_key;
};

enum { JSON_OUT_DEPTH_MAX = 63 };

struct json_out json_out_to(struct buf *out);
void json_begin_object(struct json_out *j);
void json_end_object(struct json_out *j);
void json_begin_array(struct json_out *j);
void json_end_array(struct json_out *j);
void json_key(struct json_out *j, const char *key);
void json_key_str(struct json_out *j, struct str key);

/* Control characters, DEL, U+2028 and U+2029 leave as escapes and ill-formed UTF-8 as
 * U+FFFD, so that the output is one line of valid JSON whatever the text holds. */
void json_string(struct json_out *j, struct str s);
void json_cstring(struct json_out *j, const char *s);
void json_int(struct json_out *j, int64_t v);
void json_uint(struct json_out *j, uint64_t v);

/* The shortest digits that read back to the same number; NaN and infinities, which JSON
 * lacks, as the strings "NaN", "Infinity", "-Infinity" (protobuf's JSON mapping). */
void json_double(struct json_out *j, double v);
void json_bool(struct json_out *j, bool v);
void json_null(struct json_out *j);

/* A value that is JSON already. */
void json_raw(struct json_out *j, struct str text);

/* Shorthands for a member; the *_opt forms leave an empty text or a zero out. */
void json_member_string(struct json_out *j, const char *key, const char *value);
void json_member_string_opt(struct json_out *j, const char *key, const char *value);
void json_member_int(struct json_out *j, const char *key, int64_t value);
void json_member_uint(struct json_out *j, const char *key, uint64_t value);
void json_member_bool(struct json_out *j, const char *key, bool value);

#endif
