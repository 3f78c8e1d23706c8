#ifndef SERVICES_BUILD_RECORD_H
#define SERVICES_BUILD_RECORD_H

#include "api/cordium.pb-c.h"
#include "gateway/services/workspace_state.h"
#include "policy/base/arena.h"

/* The list of builds in a template's status: pure functions on the message. What they add lives in
 * the arena; -RESOURCE_EXHAUSTED when it is full. */

typedef Cordium__Template__Status__BuildInfo__Build build_record;
#define BUILD_STATE(name) CORDIUM__TEMPLATE__STATUS__BUILD_INFO__BUILD__STATE__STATE_##name

enum { BUILDS_KEPT_MAX = 1000, BUILD_ID_LEN = 6, BUILD_TAGS_MAX = 10 };

/* 2 to 16 visible ASCII characters each, at most BUILD_TAGS_MAX. INVALID_ARGUMENT. */
int build_check_tags(size_t count, char **tags, struct error *err);

/* A RUNNING build in front of the list, the current one from now on. No tags: "latest". */
int build_begin(Cordium__Template *template_, const char *id, size_t tag_count, char **tags,
                int64_t wall_ns, struct arena *arena);

/* NULL when it is not in the list. */
build_record *build_find(const Cordium__Template *template_, const char *id);

/* READY when failure is NULL, else FAILED. A build that is over already is left alone. */
int build_end(Cordium__Template *template_, const char *id,
              const Cordium__Workspace__Status__Failure *failure, bool is_canceled, int64_t wall_ns,
              struct arena *arena);

#endif
