#ifndef CLI_AUDIT_STORY_H
#define CLI_AUDIT_STORY_H

#include "api/audit.pb-c.h"
#include "gateway/cli/page.h"
#include "policy/base/arena.h"

/* The lines of a request or of a Run, told for a person: who asked for what, what was decided and
 * why, within which limits and layers it ran, what happened when, and what became of it. Members of
 * lines that this program does not know are shown by their names. False: the arena is full. */
bool audit_story_print(const Ext__AuditStory *story, struct arena *arena, struct page *page);

#endif
