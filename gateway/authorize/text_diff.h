#ifndef AUTHORIZE_TEXT_DIFF_H
#define AUTHORIZE_TEXT_DIFF_H

#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* Appends a unified diff of two texts, three lines of context, headed by "--- NAME" and "+++ NAME";
 * nothing when they are equal. A side that does not exist is the empty text and is called
 * /dev/null. Texts of more than TEXT_DIFF_LINES_MAX lines that differ are shown as a whole. */
enum { TEXT_DIFF_LINES_MAX = 4000, TEXT_DIFF_CONTEXT = 3 };

void text_diff(const char *name, struct str before, struct str after, struct buf *out);

#endif
