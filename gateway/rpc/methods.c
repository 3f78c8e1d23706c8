#include "gateway/request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/rpc/schema.h"
#include "gateway/services/audit_service.h"
#include "gateway/services/auth_service.h"
#include "gateway/services/build_run.h"
#include "gateway/services/cluster_service.h"
#include "gateway/services/credential_service.h"
#include "gateway/services/exec_service.h"
#include "gateway/services/git_provider_service.h"
#include "gateway/services/health_service.h"
#include "gateway/services/log_service.h"
#include "gateway/services/membership_service.h"
#include "gateway/services/policy_check_service.h"
#include "gateway/services/policy_service.h"
#include "gateway/services/policy_tools_service.h"
#include "gateway/services/reflection_service.h"
#include "gateway/services/run_service.h"
#include "gateway/services/secret_service.h"
#include "gateway/services/space_service.h"
#include "gateway/services/template_service.h"
#include "gateway/services/terminal.h"
#include "gateway/services/user_config_service.h"
#include "gateway/services/user_service.h"
#include "gateway/services/watch.h"
#include "gateway/services/workspace_service.h"

/* The table of gateway/rpc/methods.def, in the order of paths. It is static and not const, because
 * the addresses of the schema's entries are known to the generated code only: the constructor below
 * binds and sorts it before main(), and nothing writes to it afterwards. */
struct entry {
    const char *path;
    struct method method;
};

static struct entry entries[] = {
#define METHOD(path_, access_, audit_, resolve_, handle_)                                          \
    {.path = path_,                                                                                \
     .method = {.access = access_, .audit = audit_, .resolve = resolve_, .handle = handle_}},
#include "gateway/rpc/methods.def"
#undef METHOD
};

enum { ENTRY_COUNT = sizeof(entries) / sizeof(entries[0]) };

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

__attribute__((constructor)) static void bind_methods(void)
{
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        entries[i].method.schema = schema_method_find(str_from(entries[i].path));
        assert(entries[i].method.schema && "a path of methods.def is not in gateway/api");
    }
    qsort(entries, ENTRY_COUNT, sizeof(entries[0]), compare_entries);
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        entries[i].method.index = (unsigned)i;
    }
    for (size_t i = 1; i < ENTRY_COUNT; i++) {
        assert(strcmp(entries[i - 1].path, entries[i].path) != 0 && "methods.def has a path twice");
    }
}

const struct method *method_find(struct str path)
{
    size_t low = 0;
    size_t high = ENTRY_COUNT;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = str_cmp(path, str_from(entries[middle].path));
        if (order == 0) {
            return &entries[middle].method;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

unsigned method_count(void)
{
    return ENTRY_COUNT;
}

const struct method *method_at(unsigned index)
{
    return index < ENTRY_COUNT ? &entries[index].method : NULL;
}
