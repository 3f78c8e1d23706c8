#include "gateway/auditfile/record_text.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/audit/hex.h"
#include "gateway/audit/wall_time.h"

void record_text_begin(struct json_out *j, const char *kind, int64_t wall_ns)
{
    char time[WALL_TIME_TEXT_SIZE];
    wall_time_format_ns(wall_ns, time);
    json_begin_object(j);
    json_member_string(j, "apiVersion", "cordium.ext/v1");
    json_member_string(j, "kind", kind);
    json_key(j, "metadata");
    json_begin_object(j);
    json_member_string(j, "createdAt", time);
    json_end_object(j);
}

void record_text_hash(struct json_out *j, const char *key, const uint8_t hash[HASH_BYTES])
{
    char hex[HASH_HEX_SIZE];
    hex_encode(hash, HASH_BYTES, hex);
    json_member_string(j, key, hex);
}

bool record_text_read_number(const struct tree_node *map, const char *key, uint64_t *ret)
{
    const struct tree_node *n = tree_member(map, key);
    char *end = NULL;
    if (!n || n->type != TREE_NUMBER || n->text.ptr[0] == '-') {
        return false;
    }
    errno = 0;
    *ret = strtoull(n->text.ptr, &end, 10);
    return errno == 0 && *end == '\0';
}

bool record_text_read_hash(const struct tree_node *map, const char *key, uint8_t ret[HASH_BYTES])
{
    const struct tree_node *n = tree_member(map, key);
    return n && n->type == TREE_STRING && hash_from_hex(n->text, ret);
}

const char *record_text_read(const struct tree_node *map, const char *key)
{
    const struct tree_node *n = tree_member(map, key);
    return n && n->type == TREE_STRING ? n->text.ptr : NULL;
}
