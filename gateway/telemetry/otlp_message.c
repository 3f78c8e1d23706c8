#include "gateway/telemetry/otlp_message.h"

#include <string.h>

#include "gateway/telemetry/otlp_internal.h"

enum {
    EXPORT_RESOURCES = 1,
    RESOURCE_RESOURCE = 1,
    RESOURCE_SCOPES = 2,
    ATTRIBUTES = 1, /* of a Resource */
    SCOPE_SCOPE = 1,
    SCOPE_NAME = 1,
    SCOPE_VERSION = 2,
    KEY = 1,
    VALUE = 2,
    VALUE_STRING = 1,
    VALUE_INT = 3,
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5,
    ANSWER_PARTIAL_SUCCESS = 1,
    PARTIAL_REJECTED = 1,
    PARTIAL_REASON = 2,
};

void otlp_put_text(struct proto_out *p, unsigned field, const char *key, struct str value)
{
    proto_begin(p, field);
    proto_text(p, KEY, str_from(key));
    proto_begin(p, VALUE);
    proto_text(p, VALUE_STRING, value);
    proto_end(p);
    proto_end(p);
}

void otlp_put_int(struct proto_out *p, unsigned field, const char *key, int64_t value)
{
    proto_begin(p, field);
    proto_text(p, KEY, str_from(key));
    proto_begin(p, VALUE);
    proto_varint(p, VALUE_INT, (uint64_t)value);
    proto_end(p);
    proto_end(p);
}

void otlp_begin(struct proto_out *p, const struct otlp_source *source, const char *scope)
{
    proto_begin(p, EXPORT_RESOURCES);
    proto_begin(p, RESOURCE_RESOURCE);
    otlp_put_text(p, ATTRIBUTES, "service.namespace", STR("cordium"));
    otlp_put_text(p, ATTRIBUTES, "service.name", STR("cordium-gateway"));
    otlp_put_text(p, ATTRIBUTES, "service.version", str_from(source->service_version));
    otlp_put_text(p, ATTRIBUTES, "service.instance.id", str_from(source->instance));
    otlp_put_text(p, ATTRIBUTES, "host.name", str_from(source->host));
    proto_end(p);
    proto_begin(p, RESOURCE_SCOPES);
    proto_begin(p, SCOPE_SCOPE);
    proto_text(p, SCOPE_NAME, str_from(scope));
    proto_text(p, SCOPE_VERSION, str_from(source->service_version));
    proto_end(p);
}

void otlp_end(struct proto_out *p)
{
    proto_end(p);
    proto_end(p);
}

/* ---- the answer ---- */

struct field {
    uint64_t number;
    uint64_t value;   /* of a varint */
    struct str bytes; /* of a length-delimited one */
};

static bool read_varint(struct bytes *in, uint64_t *ret)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte;
        if (!bytes_read_u8(in, &byte) || (shift == 63 && byte > 1)) {
            return false;
        }
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret = v;
            return true;
        }
    }
    return false;
}

static bool read_field(struct bytes *in, struct field *ret)
{
    uint64_t tag;
    uint64_t len;
    uint32_t fixed32;
    *ret = (struct field){0};
    if (!read_varint(in, &tag) || tag >> 3 == 0) {
        return false;
    }
    ret->number = tag >> 3;
    switch (tag & 7) {
    case WIRE_VARINT:
        return read_varint(in, &ret->value);
    case WIRE_FIXED64:
        return bytes_read_u64(in, &ret->value);
    case WIRE_BYTES:
        return read_varint(in, &len) && len <= bytes_left(in) &&
               bytes_read_view(in, (size_t)len, &ret->bytes);
    case WIRE_FIXED32:
        return bytes_read_u32(in, &fixed32);
    default:
        return false;
    }
}

static void keep_reason(struct str text, char ret[OTLP_REASON_SIZE])
{
    size_t n = text.len < OTLP_REASON_SIZE - 1 ? text.len : OTLP_REASON_SIZE - 1;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        ret[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    ret[n] = '\0';
}

static bool read_partial(struct str message, struct otlp_answer *ret)
{
    struct bytes in = bytes_over(message.ptr, message.len);
    struct field f;
    while (bytes_left(&in) > 0) {
        if (!read_field(&in, &f)) {
            return false;
        }
        if (f.number == PARTIAL_REJECTED) {
            ret->rejected = f.value <= INT64_MAX ? f.value : 0; /* an int64: not below zero */
        } else if (f.number == PARTIAL_REASON) {
            keep_reason(f.bytes, ret->reason);
        }
    }
    return true;
}

int otlp_answer_read(struct str body, struct otlp_answer *ret, struct error *err)
{
    struct otlp_answer answer = {0};
    struct bytes in = bytes_over(body.ptr, body.len);
    struct field f;
    while (bytes_left(&in) > 0) {
        if (!read_field(&in, &f) ||
            (f.number == ANSWER_PARTIAL_SUCCESS && !read_partial(f.bytes, &answer))) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "the answer of the OTLP receiver is no protobuf message");
        }
    }
    *ret = answer;
    return 0;
}
