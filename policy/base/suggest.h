#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include "policy/base/str.h"

/* "Did you mean": offer candidates one by one, then ask for the nearest.
 *
 *     struct suggest s = suggest_for(word);
 *     suggest_offer(&s, "readOnly");
 *     if (s.best) …
 */
struct suggest {
    struct str word;
    const char *best; /* the nearest so far that is near enough, or NULL */
    size_t distance;
};

struct suggest suggest_for(struct str word);
void suggest_offer(struct suggest *s, const char *candidate);

#endif
