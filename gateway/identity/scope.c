#include "gateway/identity/scope.h"

#include <string.h>

#include "gateway/rpc/codec.h"

static int refuse(const char *text, const char *problem, struct error *err)
{
    return error_set(err, STATUS_INVALID_ARGUMENT,
                     "Scope '%.100s' %s: write api:*, api:PACKAGE, api:PACKAGE.Service, "
                     "api:PACKAGE.Service/Method, service:* or service:NAME",
                     text, problem);
}

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for scopes");
}

/* A list of one text. */
static char **list_of(const char *text, size_t len, struct arena *arena)
{
    char **list = arena_calloc(arena, 1, sizeof(*list));
    char *copy = arena_strndup(arena, text, len);
    if (!list || !copy) {
        return NULL;
    }
    list[0] = copy;
    return list;
}

/* "PACKAGE", "PACKAGE.Service" or "PACKAGE.Service/Method"; a service begins with a capital. */
static int fill_api_filter(const char *rest, struct arena *arena, Core__Scope__API__Filter *filter,
                           struct error *err)
{
    const char *slash = strchr(rest, '/');
    size_t len = slash ? (size_t)(slash - rest) : strlen(rest);
    const char *dot = memrchr(rest, '.', len);
    const char *last = dot ? dot + 1 : rest;
    bool has_service = *last >= 'A' && *last <= 'Z';
    if (len == 0 || last == rest + len || (slash && (!has_service || !slash[1]))) {
        return refuse(rest, "names no package, service or method", err);
    }
    char ***list = &filter->packages;
    size_t *count = &filter->n_packages;
    if (has_service) {
        list = slash ? &filter->methods : &filter->services;
        count = slash ? &filter->n_methods : &filter->n_services;
    }
    *list = list_of(rest, strlen(rest), arena);
    *count = 1;
    return *list ? 0 : no_memory(err);
}

static int parse_api(const char *rest, struct arena *arena, Core__Scope *scope, struct error *err)
{
    Core__Scope__API *api = CODEC_NEW(arena, Core__Scope__API, core__scope__api);
    Core__Scope__API__All *all = CODEC_NEW(arena, Core__Scope__API__All, core__scope__api__all);
    Core__Scope__API__Filter *filter =
        CODEC_NEW(arena, Core__Scope__API__Filter, core__scope__api__filter);
    if (!api || !all || !filter) {
        return no_memory(err);
    }
    scope->type_case = CORE__SCOPE__TYPE_API;
    scope->api = api;
    if (strcmp(rest, "*") == 0) {
        api->type_case = CORE__SCOPE__API__TYPE_ALL;
        api->all = all;
        return 0;
    }
    api->type_case = CORE__SCOPE__API__TYPE_FILTER;
    api->filter = filter;
    return fill_api_filter(rest, arena, filter, err);
}

static int parse_service(const char *rest, struct arena *arena, Core__Scope *scope,
                         struct error *err)
{
    Core__Scope__Service *service = CODEC_NEW(arena, Core__Scope__Service, core__scope__service);
    Core__Scope__Service__All *all =
        CODEC_NEW(arena, Core__Scope__Service__All, core__scope__service__all);
    Core__Scope__Service__Filter *filter =
        CODEC_NEW(arena, Core__Scope__Service__Filter, core__scope__service__filter);
    if (!service || !all || !filter) {
        return no_memory(err);
    }
    scope->type_case = CORE__SCOPE__TYPE_SERVICE;
    scope->service = service;
    if (strcmp(rest, "*") == 0) {
        service->type_case = CORE__SCOPE__SERVICE__TYPE_ALL;
        service->all = all;
        return 0;
    }
    service->type_case = CORE__SCOPE__SERVICE__TYPE_FILTER;
    service->filter = filter;
    size_t len = strlen(rest);
    if (len > 2 && strcmp(rest + len - 2, "/*") == 0) {
        filter->namespaces = list_of(rest, len - 2, arena);
        filter->n_namespaces = 1;
        return filter->namespaces ? 0 : no_memory(err);
    }
    filter->names = list_of(rest, len, arena);
    filter->n_names = 1;
    return filter->names ? 0 : no_memory(err);
}

static int parse_one(const char *text, struct arena *arena, Core__Scope **ret, struct error *err)
{
    if (strlen(text) > SCOPE_TEXT_MAX) {
        return refuse(text, "is too long", err);
    }
    for (const char *c = text; *c; c++) {
        if (*c <= ' ' || *c > '~') {
            return refuse(text, "holds a space or a character outside ASCII", err);
        }
    }
    Core__Scope *scope = CODEC_NEW(arena, Core__Scope, core__scope);
    if (!scope) {
        return no_memory(err);
    }
    *ret = scope;
    if (strncmp(text, "api:", 4) == 0 && text[4]) {
        return parse_api(text + 4, arena, scope, err);
    }
    if (strncmp(text, "service:", 8) == 0 && text[8]) {
        return parse_service(text + 8, arena, scope, err);
    }
    return refuse(text, "is not understood", err);
}

int scope_parse_all(const char *const *texts, size_t count, struct arena *arena, Core__Scope ***ret,
                    struct error *err)
{
    if (count > SCOPE_COUNT_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%zu scopes were given, the maximum is %d",
                         count, SCOPE_COUNT_MAX);
    }
    Core__Scope **scopes = arena_calloc(arena, count ? count : 1, sizeof(*scopes));
    if (!scopes) {
        return no_memory(err);
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(texts[i], texts[j]) == 0) {
                return refuse(texts[i], "is given twice", err);
            }
        }
        int status = parse_one(texts[i], arena, &scopes[i], err);
        if (status) {
            return status;
        }
    }
    *ret = scopes;
    return 0;
}
