#ifndef POLICYFILE_FORMAT_H
#define POLICYFILE_FORMAT_H

#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* The canonical form of a YAML file of policies: block style, two spaces a level, members in the
 * order of the API, text of several lines as a literal block, quotes only where they are needed.
 * Formatting twice changes nothing more, and the result reads back to the same documents: that is
 * checked each time.
 *
 * Comments on lines of their own are kept, before what they stood before, and so is one blank line.
 * A comment behind a value is refused (INVALID_ARGUMENT, with its line): its place could change
 * what it is about. */
int policy_format(struct str text, struct arena *arena, struct buf *out, struct error *err);

#endif
