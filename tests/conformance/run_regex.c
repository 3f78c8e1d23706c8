/* Compares the regular expressions of the library with what RE2 says: run_regex FILE [-v]
 *
 * A line of FILE is a JSON array: the pattern, texts, and for each text what RE2 finds in it: the
 * byte offsets of the match and of each group (-1: took no part), or null for no match. Instead of
 * the list of findings, null says that RE2 refuses the pattern. tests/conformance/regex_re2.py
 * makes such files.
 *
 * Three things may differ: a pattern that is refused here on purpose (policy/lib/regex_syntax.c
 * says which), a search that ends at a limit, and nothing else. Ends with 1 when one differs, or
 * when the first two are more than a few of a hundred. */
#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "policy/lib/regex.h"

enum { ARENA_BYTES = 16 << 20, LINE_BYTES_MAX = 1 << 16, REFUSED_PERCENT_MAX = 5 };

struct totals {
    unsigned equal;
    unsigned refused_by_both;
    unsigned refused_here;
    unsigned limits;
    unsigned failed;
    bool verbose;
};

static void report(struct totals *totals, const char *pattern, const char *text, const char *why)
{
    totals->failed++;
    printf("FAILED %s\n  in the text %s\n  %s\n", pattern, text, why);
}

/* A match that the library calls unsure, and so refuses to hand out, is passed over. */
static bool is_same_match(const cJSON *expected, const struct regex_match *match,
                          const struct regex *regex)
{
    size_t count = 2 * (regex_groups(regex) + 1);
    if (!regex_match_is_sure(regex)) {
        return true;
    }
    size_t i = 0;
    const cJSON *offset;
    cJSON_ArrayForEach(offset, expected)
    {
        size_t wanted = offset->valuedouble < 0 ? SIZE_MAX : (size_t)offset->valuedouble;
        if (i >= count || match->offsets[i++] != wanted) {
            return false;
        }
    }
    return i == count;
}

static void describe(const struct regex_match *match, size_t groups, char *out, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < 2 * (groups + 1) && used + 24 < room; i++) {
        used += (size_t)snprintf(out + used, room - used, "%ld ", (long)match->offsets[i]);
    }
}

static void search_one(const struct regex *regex, const char *pattern, const cJSON *text,
                       const cJSON *expected, struct totals *totals)
{
    struct regex_match match;
    bool found = false;
    char why[512] = "found here: ";
    enum regex_status status =
        regex_search(regex, str_from(text->valuestring), 0, REGEX_ALL, &found, &match);
    if (status == REGEX_LIMIT) {
        totals->limits++;
        if (totals->verbose) {
            printf("limit: %s in %s\n", pattern, text->valuestring);
        }
    } else if (status != REGEX_OK || found == !!cJSON_IsNull(expected)) {
        report(totals, pattern, text->valuestring, found ? "found here" : "not found here");
    } else if (found && !is_same_match(expected, &match, regex)) {
        describe(&match, regex_groups(regex), why + strlen(why), sizeof why - strlen(why));
        report(totals, pattern, text->valuestring, why);
    } else {
        totals->equal++;
    }
}

static void run_line(const cJSON *line, struct totals *totals)
{
    struct arena arena;
    const struct regex *regex;
    const char *why;
    const cJSON *texts = cJSON_GetArrayItem(line, 1);
    const cJSON *findings = cJSON_GetArrayItem(line, 2);
    const char *pattern = cJSON_GetStringValue(cJSON_GetArrayItem(line, 0));
    bool is_refused = cJSON_IsNull(findings);
    arena_init(&arena, ARENA_BYTES);
    enum regex_status status = regex_compile(&arena, str_from(pattern), &regex, &why);
    if (status != REGEX_OK) {
        totals->refused_by_both += is_refused ? 1 : 0;
        totals->refused_here += is_refused ? 0 : 1;
        if (totals->verbose && !is_refused) {
            printf("refused here: %s (%s)\n", pattern, why);
        }
    } else if (is_refused) {
        report(totals, pattern, "", "RE2 refuses this pattern");
    } else {
        const cJSON *expected = findings->child;
        for (const cJSON *t = texts->child; t && expected; t = t->next, expected = expected->next) {
            search_one(regex, pattern, t, expected, totals);
        }
    }
    arena_free(&arena);
}

static bool run_file(FILE *in, struct totals *totals)
{
    char *line = malloc(LINE_BYTES_MAX);
    bool ok = line != NULL;
    while (ok && fgets(line, LINE_BYTES_MAX, in)) {
        cJSON *array = cJSON_Parse(line);
        ok = cJSON_GetArraySize(array) == 3 && cJSON_IsString(array->child);
        if (ok) {
            run_line(array, totals);
        }
        cJSON_Delete(array);
    }
    free(line);
    return ok;
}

int main(int argc, char **argv)
{
    struct totals totals = {.verbose = argc > 2 && cstr_eq(argv[2], "-v")};
    FILE *in = argc > 1 ? fopen(argv[1], "rbe") : NULL;
    if (!in) {
        (void)fprintf(stderr, "usage: run_regex FILE [-v]\n");
        return 2;
    }
    bool ok = run_file(in, &totals);
    (void)fclose(in);
    unsigned searches = totals.equal + totals.limits + totals.failed;
    printf("%u patterns are refused by both, %u only here, %u searches end at a limit\n",
           totals.refused_by_both, totals.refused_here, totals.limits);
    printf("%u passed, %u failed\n", totals.equal, totals.failed);
    bool few = (totals.refused_here + totals.limits) * 100 <= searches * REFUSED_PERCENT_MAX;
    return ok && few && searches > 0 && totals.failed == 0 ? 0 : 1;
}
