#include "gateway/rpc/schema.h"

#include <string.h>

#include "gateway/rpc/schema_table.h"

const struct schema_message *schema_message_by_name(struct str full_name)
{
    size_t low = 0;
    size_t high = schema_message_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct schema_message *m = &schema_message_table[middle];
        int order = str_cmp(full_name, str_from(m->descriptor->name));
        if (order == 0) {
            return m;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

/* Asked for several times in each request, so it measures no names. */
const struct schema_message *schema_message_find(const ProtobufCMessageDescriptor *descriptor)
{
    size_t low = 0;
    size_t high = descriptor ? schema_message_count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct schema_message *m = &schema_message_table[middle];
        if (m->descriptor == descriptor) {
            return m;
        }
        if (strcmp(descriptor->name, m->descriptor->name) < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

const struct schema_message *schema_message_at(size_t index)
{
    return index < schema_message_count ? &schema_message_table[index] : NULL;
}

const struct schema_method *schema_method_find(struct str path)
{
    size_t low = 0;
    size_t high = schema_method_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = str_cmp(path, str_from(schema_method_table[middle].path));
        if (order == 0) {
            return &schema_method_table[middle];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

const struct schema_method *schema_methods(size_t *ret_count)
{
    *ret_count = schema_method_count;
    return schema_method_table;
}

/* "pic_url" as protoc would make a JSON name of it: "picUrl". */
static bool name_is_camel_of(struct str name, const char *proto_name)
{
    size_t i = 0;
    bool after_underscore = false;
    for (const char *s = proto_name; *s; s++) {
        if (*s == '_') {
            after_underscore = true;
            continue;
        }
        char c = *s;
        if (after_underscore && c >= 'a' && c <= 'z') {
            c = (char)(c - 'a' + 'A');
        }
        after_underscore = false;
        if (i >= name.len || name.ptr[i++] != c) {
            return false;
        }
    }
    return i == name.len;
}

int schema_field_by_name(const struct schema_message *message, struct str name)
{
    const ProtobufCMessageDescriptor *d = message->descriptor;
    for (unsigned i = 0; i < d->n_fields; i++) {
        if (str_is(name, message->fields[i].json_name) || str_is(name, d->fields[i].name) ||
            name_is_camel_of(name, d->fields[i].name)) {
            return (int)i;
        }
    }
    return -1;
}

const struct schema_file *schema_file_at(size_t index)
{
    return index < schema_file_count ? &schema_file_table[index] : NULL;
}

const struct schema_file *schema_file_by_name(struct str name)
{
    for (size_t i = 0; i < schema_file_count; i++) {
        if (str_is(name, schema_file_table[i].name)) {
            return &schema_file_table[i];
        }
    }
    return NULL;
}

const struct schema_file *schema_file_by_symbol(struct str symbol)
{
    size_t low = 0;
    size_t high = schema_symbol_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = str_cmp(symbol, str_from(schema_symbol_table[middle].name));
        if (order == 0) {
            return &schema_file_table[schema_symbol_table[middle].file];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

struct str schema_file_bytes(const struct schema_file *file)
{
    return str_make(schema_file_set_bytes + file->offset, file->len);
}

struct str schema_file_set(void)
{
    return str_make(schema_file_set_bytes, schema_file_set_len);
}
