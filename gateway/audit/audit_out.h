#ifndef AUDIT_AUDIT_OUT_H
#define AUDIT_AUDIT_OUT_H

#include <stdint.h>

#include "policy/base/json_out.h"
#include "policy/base/str.h"

/* What every audit record is written with: the one point of redaction, the ids, the references.
 * Keys are the caller's own literals. */

/* The one door for text that somebody else wrote: control characters are escaped, what looks like
 * one of our tokens or the password of a URL is masked, and what is longer than
 * AUDIT_TEXT_MAX_BYTES is cut. An empty text is left out. key NULL: an element of an array. */
enum { AUDIT_TEXT_MAX_BYTES = 1024 };
void audit_put_text(struct json_out *j, const char *key, struct str s);

/* The same for a text that the administrator wants whole, up to `bytes_max`. */
void audit_put_long_text(struct json_out *j, const char *key, struct str s, size_t bytes_max);

/* RFC 3339 with nanoseconds, UTC. */
void audit_put_time(struct json_out *j, const char *key, int64_t wall_ns);

/* A reference in Octelium's form; empty parts are left out. */
void audit_put_ref_parts(struct json_out *j, const char *key, const char *api_version,
                         const char *kind, const char *uid, const char *name, const char *version);

/* The same of a resource; `message` is a resource or NULL, then nothing is written. */
void audit_put_ref(struct json_out *j, const char *key, const void *message);

/* Opens the record's object. */
void audit_begin_record(struct json_out *j, const char *api_version, const char *kind);

/* Opens "metadata" with a new id and the time. */
void audit_begin_metadata(struct json_out *j, int64_t wall_ns);

/* Opens a record of something that is no request, up to and with "event" of its member "cordium".
 */
void audit_begin_event(struct json_out *j, const char *kind, const char *event, int64_t wall_ns);

/* "outcome", from the JSON object that request_set_outcome() was given; what is none, or has more
 * than one line, is left out. */
void audit_put_outcome(struct json_out *j, struct str json);

/* Closes "cordium" and the record. */
void audit_end_entry(struct json_out *j);

#endif
