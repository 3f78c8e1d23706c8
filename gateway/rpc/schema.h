#ifndef GATEWAY_RPC_SCHEMA_H
#define GATEWAY_RPC_SCHEMA_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/str.h"

/* What protobuf-c's descriptors do not tell: JSON names, maps, well-known types, methods. The
 * tables are constant and made at build time from gateway/api by gateway/rpc/tools/pbgen.c. */

enum schema_kind {
    SCHEMA_PLAIN, /* an ordinary message */
    SCHEMA_MAP_ENTRY,
    SCHEMA_TIMESTAMP, /* google.protobuf.Timestamp */
    SCHEMA_DURATION,
    SCHEMA_STRUCT,
    SCHEMA_VALUE,
    SCHEMA_LIST_VALUE,
};

/* What is known of descriptor->fields[i], under the same i. */
struct schema_field {
    const char *json_name;
    const struct schema_message *message; /* of a message field, else NULL */
    uint16_t json_name_len;
    bool is_map; /* repeated SCHEMA_MAP_ENTRY */
};

struct schema_message {
    const ProtobufCMessageDescriptor *descriptor;
    const struct schema_field *fields;
    enum schema_kind kind;
};

struct schema_method {
    const char *path;         /* "/package.Service/Method" */
    const char *package;      /* "octelium.api.main.cordium.v1" */
    const char *service;      /* full name: "octelium.api.main.cordium.v1.MainService" */
    const char *service_name; /* "MainService" */
    const char *name;         /* "GetSpace" */
    const struct schema_message *request;
    const struct schema_message *response;
    bool client_streams;
    bool server_streams;
    bool no_side_effects; /* may be asked with GET */
};

/* NULL when there is none. */
const struct schema_message *schema_message_find(const ProtobufCMessageDescriptor *descriptor);
const struct schema_message *schema_message_by_name(struct str full_name);

/* Without a search: index is one of enum schema_index in the generated api/schema_index.h. */
const struct schema_message *schema_message_at(size_t index);

const struct schema_method *schema_method_find(struct str path);

/* All of them, sorted by path; lives for ever. */
const struct schema_method *schema_methods(size_t *ret_count);

/* The field with that JSON name, lowerCamelCase name or name as in the .proto file; its index, or
 * -1. */
int schema_field_by_name(const struct schema_message *message, struct str name);

/* For server reflection: the .proto files of the API and all that they import. */
struct schema_file {
    const char *name; /* "api/cordium.proto" */
    uint32_t offset;  /* of its FileDescriptorProto in the set */
    uint32_t len;
    const uint16_t *imports; /* schema_file_at() of each */
    size_t import_count;
};

/* NULL when there is none. Symbols are full names of messages, enums, services and methods. */
const struct schema_file *schema_file_by_name(struct str name);
const struct schema_file *schema_file_by_symbol(struct str symbol);
const struct schema_file *schema_file_at(size_t index); /* NULL past the last */

/* A serialized google.protobuf.FileDescriptorProto. */
struct str schema_file_bytes(const struct schema_file *file);

/* The whole google.protobuf.FileDescriptorSet, serialized. */
struct str schema_file_set(void);

#endif
