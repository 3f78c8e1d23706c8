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
 * Comments are kept: those on lines of their own before what they stood before, with one blank
 * line, and those behind something on a line of their own above it. One that stands where nothing
 * follows, or behind "---", is refused (INVALID_ARGUMENT, with its line) rather than lost. */
int policy_format(struct str text, struct arena *arena, struct buf *out, struct error *err);

#endif
