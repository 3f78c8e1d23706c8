#include "policy/base/suggest.h"

enum { WORD_MAX = 48 };

struct suggest suggest_for(struct str word)
{
    /* Up to a third of the letters may differ. */
    return (struct suggest){.word = word, .distance = word.len / 3 + 1};
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Levenshtein's distance, blind to case; both at most WORD_MAX long. */
static size_t edit_distance(struct str a, struct str b)
{
    size_t row[WORD_MAX + 1];
    for (size_t j = 0; j <= b.len; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t above = row[j];
            size_t cost = lower(a.ptr[i - 1]) != lower(b.ptr[j - 1]);
            row[j] = min3(row[j - 1] + 1, above + 1, diagonal + cost);
            diagonal = above;
        }
    }
    return row[b.len];
}

void suggest_offer(struct suggest *s, const char *candidate)
{
    struct str c = str_from(candidate);
    if (s->word.len == 0 || s->word.len > WORD_MAX || c.len > WORD_MAX) {
        return;
    }
    size_t distance = edit_distance(s->word, c);
    if (distance < s->distance || (!s->best && distance == s->distance)) {
        s->best = candidate;
        s->distance = distance;
    }
}
