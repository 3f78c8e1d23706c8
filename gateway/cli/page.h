#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "gateway/cli/output.h"
#include "policy/base/bytes.h"

/* Text in paragraphs for a person, each behind a label:
 *
 *   isolation   user namespace, namespaces, no_new_privs,
 *               capabilities, seccomp
 */
struct page {
    struct buf *out; /* borrowed */
    size_t width;    /* lines are broken before it; 0: they are not */
    bool has_colours;
};

/* For standard output. */
struct page page_for_stdout(struct buf *out);

/* A line of its own, in bold, with an empty line before it unless it is the first. */
void page_heading(struct page *p, const char *text);

/* Text is escaped; its own ends of lines stay. Nothing for an empty text. A label of "" goes on
 * with the field above. */
void page_field(struct page *p, const char *label, const char *text);
void page_styled_field(struct page *p, const char *label, enum output_style style,
                       const char *text);

/* Writes it. */
int page_show(const struct page *p, struct error *err);

#endif
