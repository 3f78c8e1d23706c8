#include "tests/conformance/vector_value.h"

#include <math.h>
#include <stdlib.h>

static const char *text_of(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

struct str vector_text(const cJSON *json, const char *key, struct arena *arena)
{
    const char *text = text_of(json, key);
    char *out = arena_strdup(arena, text);
    size_t len = 0;
    while (out && *text) {
        bool hidden = strncmp(text, "\xEE\x80\x80", 3) == 0;
        out[len++] = hidden ? '\0' : *text;
        text += hidden ? 3 : 1;
    }
    return str_make(out, len);
}

void vector_hide_nul(char *text)
{
    for (; *text; text++) {
        if (text[0] == '\\' && strncmp(text + 1, "u0000", 5) == 0) {
            text[2] = 'E';
        }
        text += text[0] == '\\' && text[1];
    }
}

static int digit_of(char c)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

static struct str decode_base64(const char *text, struct arena *arena)
{
    size_t len = strlen(text);
    char *out = arena_alloc(arena, len + 1);
    size_t used = 0;
    uint32_t group = 0;
    for (size_t i = 0; i < len && digit_of(text[i]) >= 0; i++) {
        group = (group << 6 | (uint32_t)digit_of(text[i])) & 0xFFFFFF;
        if (i % 4 > 0) {
            out[used++] = (char)(group >> (6 - 2 * (i % 4)) & 0xFF);
        }
    }
    return str_make(out, used);
}

static bool make_list(const cJSON *json, struct arena *arena, struct policy_value *ret)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(json, "v");
    size_t count = (size_t)cJSON_GetArraySize(array);
    struct policy_value *items = arena_calloc(arena, count, sizeof *items);
    for (size_t i = 0; i < count; i++) {
        if (!vector_value_make(cJSON_GetArrayItem(array, (int)i), arena, &items[i])) {
            return false;
        }
    }
    *ret = policy_list(policy_list_build(arena, items, count));
    return true;
}

static bool make_map(const cJSON *json, struct arena *arena, struct policy_value *ret)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(json, "v");
    size_t count = (size_t)cJSON_GetArraySize(array);
    struct policy_entry *entries = arena_calloc(arena, count, sizeof *entries);
    const struct policy_map *map;
    for (size_t i = 0; i < count; i++) {
        const cJSON *pair = cJSON_GetArrayItem(array, (int)i);
        if (!vector_value_make(cJSON_GetArrayItem(pair, 0), arena, &entries[i].key) ||
            !vector_value_make(cJSON_GetArrayItem(pair, 1), arena, &entries[i].value)) {
            return false;
        }
    }
    if (policy_map_build(arena, entries, count, &map)) {
        return false;
    }
    *ret = policy_map(map);
    return true;
}

bool vector_value_make(const cJSON *json, struct arena *arena, struct policy_value *ret)
{
    const char *t = text_of(json, "t");
    const char *v = text_of(json, "v");
    if (cstr_eq(t, "null")) {
        *ret = policy_null();
    } else if (cstr_eq(t, "bool")) {
        *ret = policy_bool(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "v")));
    } else if (cstr_eq(t, "int")) {
        *ret = policy_int(strtoll(v, NULL, 10));
    } else if (cstr_eq(t, "uint")) {
        *ret = policy_uint(strtoull(v, NULL, 10));
    } else if (cstr_eq(t, "double")) {
        uint64_t bits = strtoull(text_of(json, "bits"), NULL, 16);
        double d;
        memcpy(&d, &bits, sizeof d);
        *ret = policy_double(d);
    } else if (cstr_eq(t, "string")) {
        *ret = policy_string(vector_text(json, "v", arena));
    } else if (cstr_eq(t, "bytes")) {
        *ret = policy_bytes(decode_base64(v, arena));
    } else if (cstr_eq(t, "list")) {
        return make_list(json, arena, ret);
    } else if (cstr_eq(t, "map")) {
        return make_map(json, arena, ret);
    } else if (cstr_eq(t, "type")) {
        *ret = policy_cstring(v);
        ret->kind = POLICY_TYPE;
    } else if (cstr_eq(t, "timestamp")) {
        const cJSON *n = cJSON_GetObjectItemCaseSensitive(json, "n");
        *ret = policy_timestamp(strtoll(text_of(json, "s"), NULL, 10), (uint32_t)n->valueint);
    } else if (cstr_eq(t, "duration")) {
        const cJSON *n = cJSON_GetObjectItemCaseSensitive(json, "n");
        *ret = policy_duration(strtoll(text_of(json, "s"), NULL, 10) * 1000000000 + n->valueint);
    } else {
        return false;
    }
    return true;
}

static bool lists_match(struct policy_value a, struct policy_value b, struct arena *arena);
static bool maps_match(struct policy_value a, struct policy_value b, struct arena *arena);

static bool same(struct policy_value a, struct policy_value b, struct arena *arena)
{
    if (a.kind != b.kind) {
        return false;
    }
    switch (a.kind) {
    case POLICY_NULL:
        return true;
    case POLICY_BOOL:
        return a.as.truth == b.as.truth;
    case POLICY_DOUBLE:
        return (isnan(a.as.d) && isnan(b.as.d)) || a.as.u == b.as.u;
    case POLICY_INT:
    case POLICY_UINT:
    case POLICY_DURATION:
        return a.as.u == b.as.u;
    case POLICY_TIMESTAMP:
        return a.as.i == b.as.i && a.len == b.len;
    case POLICY_STRING:
    case POLICY_BYTES:
    case POLICY_TYPE:
        return str_eq(policy_value_str(a), policy_value_str(b));
    case POLICY_LIST:
        return lists_match(a, b, arena);
    case POLICY_MAP:
        return maps_match(a, b, arena);
    default:
        return false;
    }
}

static bool lists_match(struct policy_value a, struct policy_value b, struct arena *arena)
{
    size_t count = policy_list_size(a.as.list);
    bool ok = count == policy_list_size(b.as.list);
    for (size_t i = 0; ok && i < count; i++) {
        struct policy_value x;
        struct policy_value y;
        ok = policy_list_get(a.as.list, i, arena, &x) == 0 &&
             policy_list_get(b.as.list, i, arena, &y) == 0 && same(x, y, arena);
    }
    return ok;
}

static bool maps_match(struct policy_value a, struct policy_value b, struct arena *arena)
{
    size_t cursor = 0;
    struct policy_value key;
    struct policy_value x;
    struct policy_value y;
    bool ok = policy_map_size(a.as.map) == policy_map_size(b.as.map);
    while (ok && policy_map_next(a.as.map, &cursor, arena, &key, &x) == 1) {
        ok = policy_map_get(b.as.map, key, arena, &y) == 1 && same(x, y, arena);
    }
    return ok;
}

bool vector_value_matches(const cJSON *json, struct policy_value v, struct arena *arena)
{
    struct policy_value expected;
    return vector_value_make(json, arena, &expected) && same(expected, v, arena);
}
