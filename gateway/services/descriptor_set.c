#include "gateway/services/descriptor_set.h"

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/bytes.h"

/* Field numbers of google/protobuf/descriptor.proto. */
enum {
    SET_FILE = 1,
    FILE_NAME = 1,
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    ANY_NAME = 1, /* of a message, enum, service, method, field */
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    SERVICE_METHOD = 2,
};

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5, NESTING_MAX = 16 };

struct field {
    uint64_t number;
    struct str bytes; /* of a length-delimited one, else empty */
};

static bool read_varint(struct bytes *in, uint64_t *ret)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte;
        if (!bytes_read_u8(in, &byte)) {
            return false;
        }
        v |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128)) {
            *ret = v;
            return true;
        }
    }
    return false;
}

/* False at the end, and where the bytes make no sense. */
static bool next_field(struct bytes *in, struct field *ret)
{
    uint64_t tag;
    uint64_t n = 0;
    struct str skipped = STR_NONE;
    if (!read_varint(in, &tag)) {
        return false;
    }
    ret->number = tag >> 3;
    ret->bytes = STR_NONE;
    switch (tag & 7) {
    case WIRE_VARINT:
        return read_varint(in, &n);
    case WIRE_FIXED64:
        return bytes_read_view(in, 8, &skipped);
    case WIRE_FIXED32:
        return bytes_read_view(in, 4, &skipped);
    case WIRE_BYTES:
        return read_varint(in, &n) && n <= bytes_left(in) &&
               bytes_read_view(in, (size_t)n, &ret->bytes);
    default:
        return false;
    }
}

/* The last field of that number, or the empty text. */
static struct str find_field(struct str message, uint64_t number)
{
    struct bytes in = bytes_over(message.ptr, message.len);
    struct field f;
    struct str found = STR_NONE;
    while (next_field(&in, &f)) {
        found = f.number == number ? f.bytes : found;
    }
    return found;
}

bool descriptor_set_open(struct str bytes, struct arena *arena, struct descriptor_set *ret)
{
    struct descriptor_set set = {0};
    struct field f;
    struct bytes in = bytes_over(bytes.ptr, bytes.len);
    while (next_field(&in, &f)) {
        set.count += f.number == SET_FILE;
    }
    set.files = arena_calloc(arena, set.count, sizeof *set.files);
    if (!set.files || bytes_left(&in) > 0) {
        return false;
    }
    in = bytes_over(bytes.ptr, bytes.len);
    size_t i = 0;
    while (next_field(&in, &f)) {
        if (f.number == SET_FILE) {
            set.files[i++] = (struct descriptor_file){.bytes = f.bytes,
                                                      .name = find_field(f.bytes, FILE_NAME),
                                                      .package = find_field(f.bytes, FILE_PACKAGE)};
        }
    }
    *ret = set;
    return true;
}

const struct descriptor_file *descriptor_set_file(const struct descriptor_set *set, struct str name)
{
    for (size_t i = 0; i < set->count; i++) {
        if (str_eq(set->files[i].name, name)) {
            return &set->files[i];
        }
    }
    return NULL;
}

/* Cuts the first part off "A.B.C". */
static struct str cut_part(struct str *name)
{
    const char *dot = name->len > 0 ? memchr(name->ptr, '.', name->len) : NULL;
    size_t n = dot ? (size_t)(dot - name->ptr) : name->len;
    struct str part = str_make(name->ptr, n);
    n += dot ? 1 : 0;
    *name = str_make(name->ptr + n, name->len - n);
    return part;
}

/* What a kind of definition may hold by name, and of which kind that is. */
enum kind { KIND_FILE, KIND_MESSAGE, KIND_SERVICE, KIND_LEAF };

static enum kind kind_of_field(enum kind holder, uint64_t number, bool *ret_is_definition)
{
    *ret_is_definition = true;
    if (holder == KIND_FILE && number == FILE_MESSAGE) {
        return KIND_MESSAGE;
    }
    if (holder == KIND_FILE && number == FILE_SERVICE) {
        return KIND_SERVICE;
    }
    if (holder == KIND_MESSAGE && number == MESSAGE_NESTED) {
        return KIND_MESSAGE;
    }
    *ret_is_definition =
        (holder == KIND_FILE && number == FILE_ENUM) ||
        (holder == KIND_MESSAGE && (number == MESSAGE_FIELD || number == MESSAGE_ENUM)) ||
        (holder == KIND_SERVICE && number == SERVICE_METHOD);
    return KIND_LEAF;
}

/* Goes down a name part by part: file, type, nested type … */
static bool defines(struct str definition, struct str name)
{
    enum kind kind = KIND_FILE;
    if (name.len == 0 || name.ptr[name.len - 1] == '.') {
        return false;
    }
    for (unsigned depth = 0; depth < NESTING_MAX && name.len > 0; depth++) {
        struct str part = cut_part(&name);
        struct bytes in = bytes_over(definition.ptr, definition.len);
        struct field f;
        bool is_found = false;
        while (!is_found && next_field(&in, &f)) {
            bool is_definition;
            enum kind inner = kind_of_field(kind, f.number, &is_definition);
            if (is_definition && str_eq(find_field(f.bytes, ANY_NAME), part)) {
                is_found = true;
                kind = inner;
                definition = f.bytes;
            }
        }
        if (!is_found) {
            return false;
        }
    }
    return name.len == 0;
}

const struct descriptor_file *descriptor_set_symbol(const struct descriptor_set *set,
                                                    struct str full_name)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct descriptor_file *file = &set->files[i];
        struct str rest = full_name;
        if (file->package.len > 0) {
            size_t n = file->package.len;
            if (!str_starts_with(full_name, file->package) || full_name.len <= n + 1 ||
                full_name.ptr[n] != '.') {
                continue;
            }
            rest = str_make(full_name.ptr + n + 1, full_name.len - n - 1);
        }
        if (defines(file->bytes, rest)) {
            return file;
        }
    }
    return NULL;
}

static bool is_listed(const struct descriptor_file *const *list, size_t count,
                      const struct descriptor_file *file)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == file) {
            return true;
        }
    }
    return false;
}

size_t descriptor_set_closure(const struct descriptor_set *set, const struct descriptor_file *file,
                              const struct descriptor_file **ret)
{
    size_t count = 0;
    ret[count++] = file;
    for (size_t i = 0; i < count; i++) {
        struct bytes in = bytes_over(ret[i]->bytes.ptr, ret[i]->bytes.len);
        struct field f;
        while (next_field(&in, &f)) {
            const struct descriptor_file *import =
                f.number == FILE_DEPENDENCY ? descriptor_set_file(set, f.bytes) : NULL;
            if (import && !is_listed(ret, count, import)) {
                ret[count++] = import; /* at most one entry a file: there is room */
            }
        }
    }
    return count;
}
