#include "gateway/services/reflection_service.h"

#include <assert.h>
#include <stddef.h>

#include "api/reflection.pb-c.h"
#include "api/reflection_v1alpha.pb-c.h"
#include "gateway/request.h"
#include "gateway/services/descriptor_set.h"

/* One code serves both versions: the generated structs are the same but for their names. */
#define SAME_PLACE(field)                                                                          \
    static_assert(offsetof(Reflection__ServerReflectionRequest, field) ==                          \
                      offsetof(ReflectionAlpha__ServerReflectionRequest, field),                   \
                  "the versions of reflection differ")
SAME_PLACE(host);
SAME_PLACE(message_request_case);
SAME_PLACE(list_services);
static_assert(sizeof(Reflection__ServerReflectionRequest) ==
                  sizeof(ReflectionAlpha__ServerReflectionRequest),
              "the versions of reflection differ");

enum { ANSWER_ARENA_BYTES_MAX = 8 * 1024 * 1024 };

static void set_error(Reflection__ServerReflectionResponse *answer, struct arena *arena, int status,
                      const char *text)
{
    Reflection__ErrorResponse *e = arena_alloc(arena, sizeof *e);
    char *copy = arena_strdup(arena, text);
    if (e && copy) {
        *e = (Reflection__ErrorResponse)REFLECTION__ERROR_RESPONSE__INIT;
        e->error_code = status;
        e->error_message = copy;
        answer->message_response_case =
            REFLECTION__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
        answer->error_response = e;
    }
}

static void set_file(Reflection__ServerReflectionResponse *answer, struct arena *arena,
                     const struct descriptor_set *set, const struct descriptor_file *file)
{
    if (!file) {
        set_error(answer, arena, STATUS_NOT_FOUND, "there is no such file or symbol");
        return;
    }
    const struct descriptor_file **files = arena_calloc(arena, set->count, sizeof *files);
    Reflection__FileDescriptorResponse *found = arena_alloc(arena, sizeof *found);
    ProtobufCBinaryData *list = arena_calloc(arena, set->count, sizeof *list);
    if (!files || !found || !list) {
        set_error(answer, arena, STATUS_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    size_t count = descriptor_set_closure(set, file, files);
    for (size_t i = 0; i < count; i++) {
        list[i].data = (uint8_t *)(uintptr_t)files[i]->bytes.ptr; /* only read */
        list[i].len = files[i]->bytes.len;
    }
    *found = (Reflection__FileDescriptorResponse)REFLECTION__FILE_DESCRIPTOR_RESPONSE__INIT;
    found->n_file_descriptor_proto = count;
    found->file_descriptor_proto = list;
    answer->message_response_case =
        REFLECTION__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    answer->file_descriptor_response = found;
}

/* The API has no extensions; its messages have none of their numbers. */
static void set_extensions(Reflection__ServerReflectionResponse *answer, struct arena *arena,
                           const struct descriptor_set *set, char *type)
{
    Reflection__ExtensionNumberResponse *found = arena_alloc(arena, sizeof *found);
    if (!found || !descriptor_set_symbol(set, str_from(type))) {
        set_error(answer, arena, STATUS_NOT_FOUND, "there is no such message");
        return;
    }
    *found = (Reflection__ExtensionNumberResponse)REFLECTION__EXTENSION_NUMBER_RESPONSE__INIT;
    found->base_type_name = type;
    answer->message_response_case =
        REFLECTION__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
    answer->all_extension_numbers_response = found;
}

static void set_services(Reflection__ServerReflectionResponse *answer, struct arena *arena)
{
    size_t method_count;
    const struct schema_method *methods = schema_methods(&method_count);
    Reflection__ListServiceResponse *found = arena_alloc(arena, sizeof *found);
    Reflection__ServiceResponse **list = arena_calloc(arena, method_count, sizeof(*list));
    size_t count = 0;
    bool is_ok = found && list;
    for (size_t i = 0; is_ok && i < method_count; i++) {
        /* Sorted by path: the methods of a service are neighbours. */
        bool is_named = count > 0 && cstr_eq(list[count - 1]->name, methods[i].service);
        if (is_named || !method_find(str_from(methods[i].path))) {
            continue;
        }
        Reflection__ServiceResponse *service = arena_alloc(arena, sizeof *service);
        is_ok = service != NULL;
        if (service) {
            *service = (Reflection__ServiceResponse)REFLECTION__SERVICE_RESPONSE__INIT;
            service->name = (char *)(uintptr_t)methods[i].service; /* only read */
            list[count++] = service;
        }
    }
    if (!is_ok) {
        set_error(answer, arena, STATUS_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    *found = (Reflection__ListServiceResponse)REFLECTION__LIST_SERVICE_RESPONSE__INIT;
    found->n_service = count;
    found->service = list;
    answer->message_response_case =
        REFLECTION__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    answer->list_services_response = found;
}

static void set_answer(const Reflection__ServerReflectionRequest *asked,
                       Reflection__ServerReflectionResponse *answer, struct arena *arena)
{
    struct descriptor_set set;
    if (!descriptor_set_open(schema_file_set(), arena, &set)) {
        set_error(answer, arena, STATUS_INTERNAL, "the API's description cannot be read");
        return;
    }
    switch ((int)asked->message_request_case) {
    case REFLECTION__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        set_file(answer, arena, &set, descriptor_set_file(&set, str_from(asked->file_by_filename)));
        break;
    case REFLECTION__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        set_file(answer, arena, &set,
                 descriptor_set_symbol(&set, str_from(asked->file_containing_symbol)));
        break;
    case REFLECTION__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
        set_file(answer, arena, &set, NULL);
        break;
    case REFLECTION__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
        set_extensions(answer, arena, &set, asked->all_extension_numbers_of_type);
        break;
    case REFLECTION__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        set_services(answer, arena);
        break;
    default:
        set_error(answer, arena, STATUS_INVALID_ARGUMENT, "the request asks nothing");
        break;
    }
}

static void answer_one(struct request *r, const ProtobufCMessage *message)
{
    /* The question is sent back inside the answer, with the type that the answer has. */
    Reflection__ServerReflectionRequest asked =
        *(const Reflection__ServerReflectionRequest *)(const void *)message;
    asked.base.descriptor = &reflection__server_reflection_request__descriptor;
    asked.base.n_unknown_fields = 0;
    asked.base.unknown_fields = NULL;
    Reflection__ExtensionRequest extension = REFLECTION__EXTENSION_REQUEST__INIT;
    if (asked.message_request_case ==
        REFLECTION__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION) {
        extension.containing_type = asked.file_containing_extension->containing_type;
        extension.extension_number = asked.file_containing_extension->extension_number;
        asked.file_containing_extension = &extension;
    }
    struct arena arena;
    arena_init(&arena, ANSWER_ARENA_BYTES_MAX);
    Reflection__ServerReflectionResponse answer = REFLECTION__SERVER_REFLECTION_RESPONSE__INIT;
    answer.valid_host = asked.host;
    answer.original_request = &asked;
    set_answer(&asked, &answer, &arena);
    if (request_send(r, &answer.base)) {
        call_pause_reading(r->call); /* who does not read the answers asks no more */
    }
    arena_free(&arena);
}

static void on_writable(struct request *r)
{
    call_resume_reading(r->call);
}

void reflection_info_handle(struct request *r)
{
    r->on_message = answer_one;
    r->on_half_close = request_finish;
    r->on_writable = on_writable;
    answer_one(r, r->message);
}
