#include "gateway/authorize/ctx_schema.h"

#include <string.h>

#include "api/cordium.pb-c.h"
#include "api/core.pb-c.h"
#include "gateway/authorize/ctx_members.h"
#include "gateway/rpc/schema.h"

enum presence { ALWAYS, MAYBE, NEVER };
enum what {
    OBJECT,
    TEXT,
    BOOL,
    INT,
    TEXTS,
    TEXT_MAP,
    MESSAGE,
    MESSAGES,
    PART,
    BODY,
    METHOD_NAME,
    UNKNOWN
};

struct entry {
    const char *name;
    enum what what;
    const void *of;
    enum presence presence;
};

struct table {
    const struct entry *entries;
    size_t count;
};

#define ENTRY(name_, make_, what_, of_, presence_) {name_, what_, of_, presence_},
#define TABLE(list)                                                                                \
    {                                                                                              \
        (list), sizeof(list) / sizeof(list)[0]                                                     \
    }

/* What policies written for Octelium may ask for, and no request has here. */
#define ROOT_NEVER {"device", UNKNOWN, NULL, NEVER},
#define REQUEST_NEVER                                                                              \
    {"ssh", UNKNOWN, NULL, NEVER}, {"kubernetes", UNKNOWN, NULL, NEVER},                           \
        {"postgres", UNKNOWN, NULL, NEVER}, {"dns", UNKNOWN, NULL, NEVER},                         \
        {"socks5", UNKNOWN, NULL, NEVER}, {"mcp", UNKNOWN, NULL, NEVER},                           \
        {"llm", UNKNOWN, NULL, NEVER},
#define HTTP_NEVER                                                                                 \
    {"protocol", UNKNOWN, NULL, NEVER}, {"size", UNKNOWN, NULL, NEVER},                            \
        {"uri", UNKNOWN, NULL, NEVER}, {"queryParams", UNKNOWN, NULL, NEVER},                      \
        {"body", UNKNOWN, NULL, NEVER}, {"bodyMap", UNKNOWN, NULL, NEVER},
#define SERVICE_NEVER {"status", UNKNOWN, NULL, NEVER},
#define NAMESPACE_NEVER {"spec", UNKNOWN, NULL, NEVER}, {"status", UNKNOWN, NULL, NEVER},

static const struct entry http_entries[] = {CTX_HTTP(ENTRY) HTTP_NEVER};
static const struct table ctx_http = TABLE(http_entries);
static const struct entry grpc_entries[] = {CTX_GRPC(ENTRY)};
static const struct table ctx_grpc = TABLE(grpc_entries);
static const struct entry request_entries[] = {CTX_REQUEST(ENTRY) REQUEST_NEVER};
static const struct table ctx_request = TABLE(request_entries);
static const struct entry service_metadata_entries[] = {CTX_SERVICE_METADATA(ENTRY)};
static const struct table ctx_service_metadata = TABLE(service_metadata_entries);
static const struct entry service_spec_entries[] = {CTX_SERVICE_SPEC(ENTRY)};
static const struct table ctx_service_spec = TABLE(service_spec_entries);
static const struct entry service_entries[] = {CTX_SERVICE(ENTRY) SERVICE_NEVER};
static const struct table ctx_service = TABLE(service_entries);
static const struct entry namespace_metadata_entries[] = {CTX_NAMESPACE_METADATA(ENTRY)};
static const struct table ctx_namespace_metadata = TABLE(namespace_metadata_entries);
static const struct entry namespace_entries[] = {CTX_NAMESPACE(ENTRY) NAMESPACE_NEVER};
static const struct table ctx_namespace = TABLE(namespace_entries);
static const struct entry run_entries[] = {CTX_RUN(ENTRY)};
static const struct table ctx_run = TABLE(run_entries);
/* The map ctx.session.status.ext: of Sessions there are only those of clients and of workspaces. */
static const struct entry session_ext_entries[] = {
    {"cordium", MESSAGE, &cordium__session_ext_info__descriptor, MAYBE}};
static const struct table session_ext = TABLE(session_ext_entries);
static const struct entry root_entries[] = {CTX_ROOT(ENTRY) ROOT_NEVER};
static const struct table ctx_root = TABLE(root_entries);

/* Members of stored resources that are always there; the ends of the messages' full names. */
static const struct {
    const char *message;
    const char *field;
} always[] = {
    {".Metadata", "uid"},
    {".Metadata", "name"},
    {".Metadata", "created_at"},
    {".Metadata", "resource_version"},
    {".ObjectReference", "api_version"},
    {".ObjectReference", "kind"},
    {".ObjectReference", "uid"},
    {".ObjectReference", "name"},
    {".User.Spec", "type"},
    {".Session.Spec", "state"},
    {".Session.Status", "type"},
    {".Session.Status", "user_ref"},
    {".Workspace.Status", "space_ref"},
    {".SessionExtInfo", "workspace_ref"},
    {".SessionExtInfo", "space_ref"},
};

/* One or several messages of which the value may be any. */
struct message_set {
    bool is_stored;
    size_t count;
    const struct schema_message *messages[];
};

static const struct policy_shape_ops table_ops;
static const struct policy_shape_ops message_ops;
static const struct policy_shape_ops list_ops;
static const struct policy_shape_ops map_ops;
static const struct policy_shape_ops text_list_ops;
static const struct policy_shape_ops enum_ops;
static const struct policy_shape_ops method_ops;

static struct policy_shape any(void)
{
    return (struct policy_shape){.kind = POLICY_SHAPE_ANY};
}

static struct policy_shape plain(enum policy_shape_kind kind)
{
    return (struct policy_shape){.kind = kind};
}

static struct message_set *new_set(struct arena *arena, size_t count, bool is_stored)
{
    struct message_set *set = arena_zalloc(arena, sizeof *set + count * sizeof set->messages[0]);
    if (set) {
        set->is_stored = is_stored;
    }
    return set;
}

static struct policy_shape shape_of_message(const struct schema_message *message, bool is_stored,
                                            struct arena *arena)
{
    struct message_set *set;
    switch (message->kind) {
    case SCHEMA_TIMESTAMP:
        return plain(POLICY_SHAPE_TIME_TEXT);
    case SCHEMA_DURATION:
        return plain(POLICY_SHAPE_DURATION_TEXT);
    case SCHEMA_STRUCT:
    case SCHEMA_VALUE:
    case SCHEMA_LIST_VALUE:
    case SCHEMA_MAP_ENTRY:
        return any();
    case SCHEMA_PLAIN:
        break;
    }
    set = new_set(arena, 1, is_stored);
    if (!set) {
        return any();
    }
    set->messages[set->count++] = message;
    return (struct policy_shape){.kind = POLICY_SHAPE_OBJECT, .ops = &message_ops, .of = set};
}

static struct policy_shape shape_of_scalar(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return plain(POLICY_SHAPE_BOOL);
    case PROTOBUF_C_TYPE_STRING:
        return plain(POLICY_SHAPE_STRING);
    case PROTOBUF_C_TYPE_BYTES:
        return plain(POLICY_SHAPE_BYTES_TEXT);
    case PROTOBUF_C_TYPE_ENUM:
        return (struct policy_shape){
            .kind = POLICY_SHAPE_ENUM, .ops = &enum_ops, .of = f->descriptor};
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return plain(POLICY_SHAPE_INT_TEXT);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return plain(POLICY_SHAPE_NUMBER);
    case PROTOBUF_C_TYPE_MESSAGE:
        break;
    }
    return any();
}

/* A repeated field's or map's element; also what a single field holds. */
static struct policy_shape shape_of_element(const struct schema_message *message, unsigned i,
                                            bool is_stored, struct arena *arena)
{
    const ProtobufCFieldDescriptor *f = &message->descriptor->fields[i];
    return f->type == PROTOBUF_C_TYPE_MESSAGE
               ? shape_of_message(message->fields[i].message, is_stored, arena)
               : shape_of_scalar(f);
}

/* A resource has metadata, spec and status; those of a stored one are there. */
static bool is_always_there(const struct schema_message *message, unsigned i)
{
    const ProtobufCMessageDescriptor *d = message->descriptor;
    const char *field = d->fields[i].name;
    bool is_part = strcmp(field, "metadata") == 0 || strcmp(field, "spec") == 0 ||
                   strcmp(field, "status") == 0;
    if (is_part && protobuf_c_message_descriptor_get_field_by_name(d, "metadata")) {
        return true;
    }
    for (size_t k = 0; k < sizeof always / sizeof always[0]; k++) {
        if (str_ends_with(str_from(d->name), str_from(always[k].message)) &&
            strcmp(field, always[k].field) == 0) {
            return true;
        }
    }
    return false;
}

struct field_of {
    const struct schema_message *message;
    unsigned index;
    bool is_stored;
};

static bool is_session_ext(const struct schema_message *message, unsigned i)
{
    return message->descriptor == &core__session__status__descriptor &&
           strcmp(message->descriptor->fields[i].name, "ext") == 0;
}

static struct policy_shape shape_of_field(const struct schema_message *message, unsigned i,
                                          bool is_stored, struct arena *arena)
{
    const ProtobufCFieldDescriptor *f = &message->descriptor->fields[i];
    struct policy_shape shape;
    if (is_session_ext(message, i)) {
        shape = (struct policy_shape){
            .kind = POLICY_SHAPE_OBJECT, .ops = &table_ops, .of = &session_ext};
    } else if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        struct field_of *of = arena_alloc(arena, sizeof *of);
        if (!of) {
            return any();
        }
        *of = (struct field_of){message, i, is_stored};
        bool is_map = message->fields[i].is_map;
        shape = (struct policy_shape){.kind = is_map ? POLICY_SHAPE_MAP : POLICY_SHAPE_LIST,
                                      .ops = is_map ? &map_ops : &list_ops,
                                      .of = of};
    } else {
        shape = shape_of_element(message, i, is_stored, arena);
    }
    bool is_message = f->type == PROTOBUF_C_TYPE_MESSAGE && f->label != PROTOBUF_C_LABEL_REPEATED;
    shape.may_be_absent = !(is_stored && is_always_there(message, i));
    shape.zero_is_absent =
        !is_message && !(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) && shape.may_be_absent;
    return shape;
}

/* The field by its JSON name, or -1: ctx has no other names. */
static int field_index(const struct schema_message *message, struct str name)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        if (str_is(name, message->fields[i].json_name)) {
            return (int)i;
        }
    }
    return -1;
}

/* The same member of several messages: one shape when they agree. */
static struct policy_shape join_shapes(struct policy_shape a, struct policy_shape b,
                                       struct arena *arena)
{
    bool may_be_absent = a.may_be_absent || b.may_be_absent;
    bool zero_is_absent = a.zero_is_absent && b.zero_is_absent;
    if (a.kind == b.kind && a.kind == POLICY_SHAPE_OBJECT) {
        const struct message_set *x = a.of;
        const struct message_set *y = b.of;
        struct message_set *set = new_set(arena, x->count + y->count, x->is_stored);
        if (set) {
            memcpy(set->messages, x->messages, x->count * sizeof x->messages[0]);
            memcpy(set->messages + x->count, y->messages, y->count * sizeof y->messages[0]);
            set->count = x->count + y->count;
            a.of = set;
        } else {
            a = any();
        }
    } else if (a.kind != b.kind || a.of != b.of) {
        bool has_parts = a.kind == POLICY_SHAPE_LIST || a.kind == POLICY_SHAPE_MAP;
        a = a.kind == b.kind && !has_parts && a.kind != POLICY_SHAPE_ENUM ? plain(a.kind) : any();
    }
    a.may_be_absent = may_be_absent;
    a.zero_is_absent = zero_is_absent;
    return a;
}

static bool message_member(const struct policy_shape *object, struct str name, struct arena *arena,
                           struct policy_shape *ret)
{
    const struct message_set *set = object->of;
    bool found = false;
    for (size_t k = 0; k < set->count; k++) {
        int i = field_index(set->messages[k], name);
        if (i < 0) {
            continue;
        }
        struct policy_shape shape =
            shape_of_field(set->messages[k], (unsigned)i, set->is_stored, arena);
        *ret = found ? join_shapes(*ret, shape, arena) : shape;
        found = true;
    }
    return found;
}

static const char *message_member_name(const struct policy_shape *object, size_t i)
{
    const struct message_set *set = object->of;
    for (size_t k = 0; k < set->count; k++) {
        if (i < set->messages[k]->descriptor->n_fields) {
            return set->messages[k]->fields[i].json_name;
        }
        i -= set->messages[k]->descriptor->n_fields;
    }
    return NULL;
}

static void no_element(const struct policy_shape *container, struct arena *arena,
                       struct policy_shape *ret)
{
    (void)container;
    (void)arena;
    *ret = any();
}

static void list_element(const struct policy_shape *container, struct arena *arena,
                         struct policy_shape *ret)
{
    const struct field_of *of = container->of;
    *ret = shape_of_element(of->message, of->index, of->is_stored, arena);
}

/* The second field of an entry is its value. */
static void map_element(const struct policy_shape *container, struct arena *arena,
                        struct policy_shape *ret)
{
    const struct field_of *of = container->of;
    *ret = shape_of_element(of->message->fields[of->index].message, 1, of->is_stored, arena);
}

static void text_element(const struct policy_shape *container, struct arena *arena,
                         struct policy_shape *ret)
{
    (void)container;
    (void)arena;
    *ret = plain(POLICY_SHAPE_STRING);
}

static void resource_element(const struct policy_shape *container, struct arena *arena,
                             struct policy_shape *ret)
{
    const struct schema_message *message = schema_message_find(container->of);
    *ret = message ? shape_of_message(message, true, arena) : any();
}

static const char *enum_text(const struct policy_shape *of, size_t i)
{
    const ProtobufCEnumDescriptor *d = of->of;
    return i < d->n_values ? d->values[i].name : NULL;
}

/* Names of methods; some services have one of the same name. */
static const char *method_text(const struct policy_shape *of, size_t i)
{
    size_t count;
    const struct schema_method *methods = schema_methods(&count);
    (void)of;
    return i < count ? methods[i].name : NULL;
}

static const struct policy_shape_ops resource_list_ops = {NULL, NULL, resource_element, NULL};

/* Every request message that the API knows. */
static struct policy_shape body_shape(struct arena *arena)
{
    size_t count;
    const struct schema_method *methods = schema_methods(&count);
    struct message_set *set = new_set(arena, count, false);
    for (size_t i = 0; set && i < count; i++) {
        set->messages[set->count++] = methods[i].request;
    }
    return set ? (struct policy_shape){.kind = POLICY_SHAPE_OBJECT, .ops = &message_ops, .of = set}
               : any();
}

static struct policy_shape entry_shape(const struct entry *e, struct arena *arena)
{
    switch (e->what) {
    case OBJECT:
        return (struct policy_shape){.kind = POLICY_SHAPE_OBJECT, .ops = &table_ops, .of = e->of};
    case TEXT:
        return plain(POLICY_SHAPE_STRING);
    case BOOL:
        return plain(POLICY_SHAPE_BOOL);
    case INT:
        return plain(POLICY_SHAPE_INT);
    case TEXTS:
        return (struct policy_shape){.kind = POLICY_SHAPE_LIST, .ops = &text_list_ops};
    case TEXT_MAP:
        return (struct policy_shape){.kind = POLICY_SHAPE_MAP, .ops = &text_list_ops};
    case MESSAGE:
    case PART: {
        const struct schema_message *message = schema_message_find(e->of);
        return message ? shape_of_message(message, e->what == MESSAGE, arena) : any();
    }
    case MESSAGES:
        return (struct policy_shape){
            .kind = POLICY_SHAPE_LIST, .ops = &resource_list_ops, .of = e->of};
    case BODY:
        return body_shape(arena);
    case METHOD_NAME:
        return (struct policy_shape){.kind = POLICY_SHAPE_ENUM, .ops = &method_ops};
    case UNKNOWN:
        break;
    }
    return any();
}

static bool table_member(const struct policy_shape *object, struct str name, struct arena *arena,
                         struct policy_shape *ret)
{
    const struct table *t = object->of;
    for (size_t i = 0; i < t->count; i++) {
        if (str_is(name, t->entries[i].name)) {
            *ret = entry_shape(&t->entries[i], arena);
            ret->may_be_absent = t->entries[i].presence != ALWAYS;
            ret->is_never = t->entries[i].presence == NEVER;
            ret->zero_is_absent = ret->may_be_absent && ret->kind == POLICY_SHAPE_LIST;
            return true;
        }
    }
    return false;
}

static const char *table_member_name(const struct policy_shape *object, size_t i)
{
    const struct table *t = object->of;
    return i < t->count ? t->entries[i].name : NULL;
}

static const struct policy_shape_ops table_ops = {table_member, table_member_name, no_element,
                                                  NULL};
static const struct policy_shape_ops message_ops = {message_member, message_member_name, no_element,
                                                    NULL};
static const struct policy_shape_ops list_ops = {NULL, NULL, list_element, NULL};
static const struct policy_shape_ops map_ops = {NULL, NULL, map_element, NULL};
static const struct policy_shape_ops text_list_ops = {NULL, NULL, text_element, NULL};
static const struct policy_shape_ops enum_ops = {NULL, NULL, no_element, enum_text};
static const struct policy_shape_ops method_ops = {NULL, NULL, no_element, method_text};

struct policy_shape ctx_schema(void)
{
    return (struct policy_shape){.kind = POLICY_SHAPE_OBJECT, .ops = &table_ops, .of = &ctx_root};
}
