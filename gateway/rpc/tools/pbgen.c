/* pbgen: a build tool. Reads the FileDescriptorSet of the API and writes
 *   - the same set as protoc-gen-c 1.4 takes it: a proto3 `optional` field becomes the only member
 *     of a real oneof named has_FIELD, which has the same bytes on the wire;
 *   - schema_table.c: what gateway/rpc/schema.h offers beyond protobuf-c's own descriptors;
 *   - schema_index.h: the place of each message in it.
 *
 *     pbgen SET.pb REWRITTEN.pb schema_table.c schema_index.h
 *
 * It trusts its input, which protoc made, and stops at the first thing that it does not know. */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "google/protobuf/descriptor.pb-c.h"

typedef Google__Protobuf__FileDescriptorSet FileSet;
typedef Google__Protobuf__FileDescriptorProto File;
typedef Google__Protobuf__DescriptorProto Message;
typedef Google__Protobuf__FieldDescriptorProto Field;
typedef Google__Protobuf__MethodDescriptorProto Method;

enum {
    NAME_MAX_BYTES = 512,
    MESSAGES_MAX = 4096,
    METHODS_MAX = 1024,
    SYMBOLS_MAX = 16384,
    SET_BYTES_MAX = 1 << 24
};

struct message_row {
    char full_name[NAME_MAX_BYTES]; /* without a leading dot */
    char c_name[NAME_MAX_BYTES];    /* of its descriptor, without __descriptor */
    Message *message;
};

struct method_row {
    char path[NAME_MAX_BYTES];
    const File *file;
    const char *service;
    Method *method;
};

struct symbol_row {
    char name[NAME_MAX_BYTES];
    size_t file;
};

struct tables {
    struct message_row *messages;
    size_t message_count;
    struct method_row *methods;
    size_t method_count;
    struct symbol_row *symbols;
    size_t symbol_count;
};

__attribute__((noreturn, format(printf, 1, 2))) static void fatal(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fputs("pbgen: ", stderr);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

__attribute__((format(printf, 2, 3))) static void name_set(char out[NAME_MAX_BYTES],
                                                           const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(out, NAME_MAX_BYTES, format, ap);
    va_end(ap);
    if (n < 0 || n >= NAME_MAX_BYTES) {
        fatal("a name is over %d bytes: %s", NAME_MAX_BYTES, out);
    }
}

/* "FooBAR.Baz" as protoc-gen-c spells it in C: "foo_bar__baz". */
static void c_name_append(char out[NAME_MAX_BYTES], const char *name)
{
    size_t len = strlen(out);
    bool was_upper = true; /* no underscore at the beginning of a part */
    for (const char *s = name; *s; s++) {
        bool is_upper = isupper((unsigned char)*s) != 0;
        if (len + 3 >= NAME_MAX_BYTES) {
            fatal("a name is too long: %s", name);
        }
        if (*s == '.') {
            out[len++] = '_';
            out[len++] = '_';
            was_upper = true;
            continue;
        }
        if (is_upper && !was_upper) {
            out[len++] = '_';
        }
        out[len++] = (char)tolower((unsigned char)*s);
        was_upper = is_upper;
    }
    out[len] = '\0';
}

static uint64_t varint_read(const uint8_t **p, const uint8_t *end)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && *p < end; shift += 7) {
        uint8_t byte = *(*p)++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            return v;
        }
    }
    fatal("a file option is not well-formed");
}

/* The text of the file option (pb_c_file).c_package, which protobuf-c's own reader keeps as an
 * unknown field: extension 1019 of FileOptions, member 6. */
static bool file_c_package(const File *file, char out[NAME_MAX_BYTES])
{
    const ProtobufCMessage *options = file->options ? &file->options->base : NULL;
    for (unsigned i = 0; options && i < options->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *u = &options->unknown_fields[i];
        if (u->tag != 1019) {
            continue;
        }
        const uint8_t *p = u->data;
        const uint8_t *end = u->data + u->len;
        (void)varint_read(&p, end); /* the length of the whole */
        while (p < end) {
            uint64_t tag = varint_read(&p, end);
            uint64_t value = varint_read(&p, end);
            if ((tag & 7) != 2) {
                continue;
            }
            if (value > (uint64_t)(end - p)) {
                fatal("%s: a file option is cut", file->name);
            }
            if (tag >> 3 == 6) {
                name_set(out, "%.*s", (int)value, (const char *)p);
                return true;
            }
            p += value;
        }
    }
    return false;
}

static bool file_is_wanted(const File *file)
{
    return strcmp(file->name, "protobuf-c/protobuf-c.proto") != 0 &&
           strcmp(file->name, "google/protobuf/descriptor.proto") != 0;
}

static void tables_add_message(struct tables *t, const char *scope, const char *c_scope,
                               Message *message)
{
    if (t->message_count == MESSAGES_MAX) {
        fatal("more than %d messages", MESSAGES_MAX);
    }
    struct message_row *row = &t->messages[t->message_count++];
    name_set(row->full_name, "%s.%s", scope, message->name);
    name_set(row->c_name, "%s__", c_scope);
    c_name_append(row->c_name, message->name);
    row->message = message;
    for (size_t i = 0; i < message->n_nested_type; i++) {
        tables_add_message(t, row->full_name, row->c_name, message->nested_type[i]);
    }
}

static void tables_add_file(struct tables *t, File *file)
{
    char package[NAME_MAX_BYTES];
    if (!file_c_package(file, package)) {
        name_set(package, "%s", file->package);
    }
    char c_package[NAME_MAX_BYTES] = "";
    c_name_append(c_package, package);
    for (size_t i = 0; i < file->n_message_type; i++) {
        tables_add_message(t, file->package, c_package, file->message_type[i]);
    }
    for (size_t i = 0; i < file->n_service; i++) {
        for (size_t k = 0; k < file->service[i]->n_method; k++) {
            if (t->method_count == METHODS_MAX) {
                fatal("more than %d methods", METHODS_MAX);
            }
            struct method_row *row = &t->methods[t->method_count++];
            row->file = file;
            row->service = file->service[i]->name;
            row->method = file->service[i]->method[k];
            name_set(row->path, "/%s.%s/%s", file->package, row->service, row->method->name);
        }
    }
}

__attribute__((format(printf, 3, 4))) static void tables_add_symbol(struct tables *t, size_t file,
                                                                    const char *format, ...)
{
    if (t->symbol_count == SYMBOLS_MAX) {
        fatal("more than %d symbols", SYMBOLS_MAX);
    }
    struct symbol_row *row = &t->symbols[t->symbol_count++];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(row->name, NAME_MAX_BYTES, format, ap);
    va_end(ap);
    if (n < 0 || n >= NAME_MAX_BYTES) {
        fatal("a name is too long: %s", row->name);
    }
    row->file = file;
}

static void tables_add_message_symbols(struct tables *t, size_t file, const char *scope,
                                       const Message *m)
{
    char name[NAME_MAX_BYTES];
    name_set(name, "%s.%s", scope, m->name);
    tables_add_symbol(t, file, "%s", name);
    for (size_t i = 0; i < m->n_nested_type; i++) {
        tables_add_message_symbols(t, file, name, m->nested_type[i]);
    }
    for (size_t i = 0; i < m->n_enum_type; i++) {
        tables_add_symbol(t, file, "%s.%s", name, m->enum_type[i]->name);
    }
}

static void tables_add_file_symbols(struct tables *t, size_t index, const File *file)
{
    const char *package = file->package ? file->package : "";
    for (size_t i = 0; i < file->n_message_type; i++) {
        tables_add_message_symbols(t, index, package, file->message_type[i]);
    }
    for (size_t i = 0; i < file->n_enum_type; i++) {
        tables_add_symbol(t, index, "%s.%s", package, file->enum_type[i]->name);
    }
    for (size_t i = 0; i < file->n_service; i++) {
        const Google__Protobuf__ServiceDescriptorProto *service = file->service[i];
        tables_add_symbol(t, index, "%s.%s", package, service->name);
        for (size_t k = 0; k < service->n_method; k++) {
            tables_add_symbol(t, index, "%s.%s.%s", package, service->name,
                              service->method[k]->name);
        }
    }
}

static int symbol_row_cmp(const void *a, const void *b)
{
    return strcmp(((const struct symbol_row *)a)->name, ((const struct symbol_row *)b)->name);
}

static int message_row_cmp(const void *a, const void *b)
{
    return strcmp(((const struct message_row *)a)->full_name,
                  ((const struct message_row *)b)->full_name);
}

static int method_row_cmp(const void *a, const void *b)
{
    return strcmp(((const struct method_row *)a)->path, ((const struct method_row *)b)->path);
}

static int field_cmp(const void *a, const void *b)
{
    const Field *const *x = a;
    const Field *const *y = b;
    return ((*x)->number > (*y)->number) - ((*x)->number < (*y)->number);
}

/* The row of ".package.Message". */
static size_t tables_index_of(const struct tables *t, const char *type_name)
{
    for (size_t i = 0; i < t->message_count; i++) {
        if (strcmp(t->messages[i].full_name, type_name + 1) == 0) {
            return i;
        }
    }
    fatal("no message %s", type_name);
}

static bool message_is_map_entry(const Message *message)
{
    return message->options && message->options->has_map_entry && message->options->map_entry;
}

static const char *message_row_kind(const struct message_row *row)
{
    static const char *const kinds[][2] = {
        {"google.protobuf.Timestamp", "SCHEMA_TIMESTAMP"},
        {"google.protobuf.Duration", "SCHEMA_DURATION"},
        {"google.protobuf.Struct", "SCHEMA_STRUCT"},
        {"google.protobuf.Value", "SCHEMA_VALUE"},
        {"google.protobuf.ListValue", "SCHEMA_LIST_VALUE"},
    };
    if (message_is_map_entry(row->message)) {
        return "SCHEMA_MAP_ENTRY";
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(row->full_name, kinds[i][0]) == 0) {
            return kinds[i][1];
        }
    }
    if (strncmp(row->full_name, "google.protobuf.", 16) == 0) {
        fatal("%s has a JSON form of its own, which the codec does not know", row->full_name);
    }
    return "SCHEMA_PLAIN";
}

static void message_row_write_fields(const struct tables *t, const struct message_row *row, FILE *o)
{
    Message *m = row->message;
    Field **fields = calloc(m->n_field + 1, sizeof(Field *));
    if (!fields) {
        fatal("out of memory");
    }
    for (size_t i = 0; i < m->n_field; i++) {
        fields[i] = m->field[i];
    }
    /* protobuf-c keeps descriptor->fields in order of the numbers. */
    qsort(fields, m->n_field, sizeof(Field *), field_cmp);
    fprintf(o, "static const struct schema_field fields_%s[] = {\n", row->c_name);
    for (size_t i = 0; i < m->n_field; i++) {
        const Field *f = fields[i];
        fprintf(o, "    {\"%s\", ", f->json_name);
        if (f->type == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_MESSAGE) {
            size_t k = tables_index_of(t, f->type_name);
            fprintf(o, "&schema_message_table[%zu], %zu, %s},\n", k, strlen(f->json_name),
                    message_is_map_entry(t->messages[k].message) ? "true" : "false");
        } else {
            fprintf(o, "NULL, %zu, false},\n", strlen(f->json_name));
        }
    }
    fprintf(o, "%s};\n", m->n_field ? "" : "    {NULL, NULL, 0, false},\n");
    free(fields);
}

static void tables_write_messages(const struct tables *t, FILE *o)
{
    for (size_t i = 0; i < t->message_count; i++) {
        message_row_write_fields(t, &t->messages[i], o);
    }
    fprintf(o, "\nconst struct schema_message schema_message_table[] = {\n");
    for (size_t i = 0; i < t->message_count; i++) {
        const struct message_row *row = &t->messages[i];
        fprintf(o, "    {&%s__descriptor, fields_%s, %s},\n", row->c_name, row->c_name,
                message_row_kind(row));
    }
    fprintf(o, "};\nconst size_t schema_message_count = %zu;\n\n", t->message_count);
}

static void tables_write_methods(const struct tables *t, FILE *o)
{
    fprintf(o, "const struct schema_method schema_method_table[] = {\n");
    for (size_t i = 0; i < t->method_count; i++) {
        const struct method_row *row = &t->methods[i];
        const Google__Protobuf__MethodOptions *options = row->method->options;
        bool no_side_effects =
            options && options->has_idempotency_level &&
            options->idempotency_level ==
                GOOGLE__PROTOBUF__METHOD_OPTIONS__IDEMPOTENCY_LEVEL__NO_SIDE_EFFECTS;
        fprintf(o,
                "    {\"%s\", \"%s\", \"%s.%s\", \"%s\", \"%s\", &schema_message_table[%zu], "
                "&schema_message_table[%zu], %s, %s, %s},\n",
                row->path, row->file->package, row->file->package, row->service, row->service,
                row->method->name, tables_index_of(t, row->method->input_type),
                tables_index_of(t, row->method->output_type),
                row->method->client_streaming ? "true" : "false",
                row->method->server_streaming ? "true" : "false",
                no_side_effects ? "true" : "false");
    }
    fprintf(o, "};\nconst size_t schema_method_count = %zu;\n\n", t->method_count);
}

static size_t file_index_of(const FileSet *set, const char *name)
{
    for (size_t i = 0; i < set->n_file; i++) {
        if (strcmp(set->file[i]->name, name) == 0) {
            return i;
        }
    }
    fatal("%s is imported and not in the set", name);
}

/* A set is nothing but its files, each as field 1: where each of them lies in the bytes. */
static void files_write(const FileSet *set, const uint8_t *raw, size_t raw_len, FILE *o)
{
    for (size_t i = 0; i < set->n_file; i++) {
        fprintf(o, "static const uint16_t imports_%zu[] = {", i);
        for (size_t k = 0; k < set->file[i]->n_dependency; k++) {
            fprintf(o, "%zu, ", file_index_of(set, set->file[i]->dependency[k]));
        }
        fprintf(o, "0};\n");
    }
    fprintf(o, "const struct schema_file schema_file_table[] = {\n");
    const uint8_t *p = raw;
    const uint8_t *end = raw + raw_len;
    for (size_t i = 0; i < set->n_file; i++) {
        if (varint_read(&p, end) != (1 << 3 | 2)) {
            fatal("the set holds something else than files");
        }
        uint64_t len = varint_read(&p, end);
        if (len > (uint64_t)(end - p)) {
            fatal("the set is cut");
        }
        fprintf(o, "    {\"%s\", %zu, %zu, imports_%zu, %zu},\n", set->file[i]->name,
                (size_t)(p - raw), (size_t)len, i, set->file[i]->n_dependency);
        p += len;
    }
    fprintf(o, "};\nconst size_t schema_file_count = %zu;\n\n", set->n_file);
}

static void symbols_write(const struct tables *t, FILE *o)
{
    fprintf(o, "const struct schema_symbol schema_symbol_table[] = {\n");
    for (size_t i = 0; i < t->symbol_count; i++) {
        fprintf(o, "    {\"%s\", %zu},\n", t->symbols[i].name, t->symbols[i].file);
    }
    fprintf(o, "};\nconst size_t schema_symbol_count = %zu;\n\n", t->symbol_count);
}

static void tables_write(const struct tables *t, const FileSet *set, const uint8_t *raw,
                         size_t raw_len, const char *path)
{
    FILE *o = fopen(path, "w");
    if (!o) {
        fatal("cannot write %s", path);
    }
    fprintf(o, "/* Made by pbgen from gateway/api: do not edit. */\n"
               "#include \"gateway/rpc/schema_table.h\"\n\n");
    for (size_t i = 0; i < set->n_file; i++) {
        if (file_is_wanted(set->file[i])) {
            int stem_len = (int)(strlen(set->file[i]->name) - strlen(".proto"));
            fprintf(o, "#include \"%.*s.pb-c.h\"\n", stem_len, set->file[i]->name);
        }
    }
    fputc('\n', o);
    tables_write_messages(t, o);
    tables_write_methods(t, o);
    files_write(set, raw, raw_len, o);
    symbols_write(t, o);
    fprintf(o, "const uint8_t schema_file_set_bytes[] = {");
    for (size_t i = 0; i < raw_len; i++) {
        fprintf(o, "%s%u,", i % 24 ? "" : "\n    ", raw[i]);
    }
    fprintf(o, "\n};\nconst size_t schema_file_set_len = %zu;\n", raw_len);
    if (fclose(o)) {
        fatal("cannot write %s", path);
    }
}

static void index_write(const struct tables *t, const char *path)
{
    FILE *o = fopen(path, "w");
    if (!o) {
        fatal("cannot write %s", path);
    }
    fprintf(o, "/* Made by pbgen from gateway/api: do not edit. */\n"
               "#ifndef API_SCHEMA_INDEX_H\n#define API_SCHEMA_INDEX_H\n\n"
               "enum schema_index {\n");
    for (size_t i = 0; i < t->message_count; i++) {
        fprintf(o, "    SCHEMA_INDEX_%s = %zu,\n", t->messages[i].c_name, i);
    }
    fprintf(o, "};\n\n#endif\n");
    if (fclose(o)) {
        fatal("cannot write %s", path);
    }
}

/* proto3 `optional`: protoc made a hidden oneof for it; make it a visible one. */
static void message_rewrite_optional(Message *m)
{
    for (size_t i = 0; i < m->n_nested_type; i++) {
        message_rewrite_optional(m->nested_type[i]);
    }
    for (size_t i = 0; i < m->n_field; i++) {
        Field *f = m->field[i];
        if (!f->has_proto3_optional || !f->proto3_optional) {
            continue;
        }
        char *name = malloc(NAME_MAX_BYTES);
        if (!name) {
            fatal("out of memory");
        }
        name_set(name, "has_%s", f->name);
        f->has_proto3_optional = 0;
        m->oneof_decl[f->oneof_index]->name = name;
    }
}

static void file_set_write(const FileSet *set, const char *path)
{
    uint8_t *bytes = malloc(google__protobuf__file_descriptor_set__get_packed_size(set));
    FILE *o = fopen(path, "wb");
    if (!bytes || !o) {
        fatal("cannot write %s", path);
    }
    size_t len = google__protobuf__file_descriptor_set__pack(set, bytes);
    if (fwrite(bytes, 1, len, o) != len || fclose(o)) {
        fatal("cannot write %s", path);
    }
    free(bytes);
}

static uint8_t *file_read(const char *path, size_t *ret_len)
{
    FILE *in = fopen(path, "rb");
    uint8_t *bytes = malloc(SET_BYTES_MAX);
    if (!in || !bytes) {
        fatal("cannot read %s", path);
    }
    *ret_len = fread(bytes, 1, SET_BYTES_MAX, in);
    if (*ret_len == SET_BYTES_MAX || ferror(in)) {
        fatal("cannot read %s, or it is too large", path);
    }
    fclose(in);
    return bytes;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fatal("use: pbgen SET.pb REWRITTEN.pb schema_table.c schema_index.h");
    }
    size_t len;
    uint8_t *raw = file_read(argv[1], &len);
    FileSet *set = google__protobuf__file_descriptor_set__unpack(NULL, len, raw);
    struct tables t = {
        .messages = calloc(MESSAGES_MAX, sizeof(struct message_row)),
        .methods = calloc(METHODS_MAX, sizeof(struct method_row)),
        .symbols = calloc(SYMBOLS_MAX, sizeof(struct symbol_row)),
    };
    if (!set || !t.messages || !t.methods || !t.symbols) {
        fatal("%s is not a FileDescriptorSet", argv[1]);
    }
    for (size_t i = 0; i < set->n_file; i++) {
        tables_add_file_symbols(&t, i, set->file[i]);
        if (file_is_wanted(set->file[i])) {
            tables_add_file(&t, set->file[i]);
        }
    }
    qsort(t.symbols, t.symbol_count, sizeof(t.symbols[0]), symbol_row_cmp);
    qsort(t.messages, t.message_count, sizeof(t.messages[0]), message_row_cmp);
    qsort(t.methods, t.method_count, sizeof(t.methods[0]), method_row_cmp);
    tables_write(&t, set, raw, len, argv[3]);
    index_write(&t, argv[4]);
    for (size_t i = 0; i < set->n_file; i++) {
        for (size_t k = 0; k < set->file[i]->n_message_type; k++) {
            message_rewrite_optional(set->file[i]->message_type[k]);
        }
    }
    file_set_write(set, argv[2]);
    return 0;
}
