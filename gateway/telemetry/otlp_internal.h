#ifndef TELEMETRY_OTLP_INTERNAL_H
#define TELEMETRY_OTLP_INTERNAL_H

#include <stdint.h>

#include "gateway/telemetry/otlp_message.h"
#include "gateway/telemetry/proto_out.h"

/* What the messages of both signals share. The envelopes of logs and metrics have the same field
 * numbers: resource_{logs,metrics} = 1, scope_{logs,metrics} = 2, then the records. */

enum { OTLP_SCOPE_RECORDS = 2 };

/* Everything before the first record, and after the last. */
void otlp_begin(struct proto_out *p, const struct otlp_source *source, const char *scope);
void otlp_end(struct proto_out *p);

/* One KeyValue in a repeated field. */
void otlp_put_text(struct proto_out *p, unsigned field, const char *key, struct str value);
void otlp_put_int(struct proto_out *p, unsigned field, const char *key, int64_t value);

#endif
