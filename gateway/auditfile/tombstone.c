#include "gateway/auditfile/tombstone.h"

#include <inttypes.h>

#include "gateway/audit/hex.h"
#include "gateway/auditfile/record_text.h"
#include "gateway/text/json_reader.h"

static struct json_out begin(const char *reason, int64_t wall_ns, struct buf *out)
{
    struct json_out j = json_out_to(out);
    record_text_begin(&j, "AuditTombstone", wall_ns);
    json_key(&j, "tombstone");
    json_begin_object(&j);
    json_member_string(&j, "reason", reason);
    return j;
}

void tombstone_write_file(const struct tombstone_file *t, int64_t wall_ns, struct buf *out)
{
    struct json_out j = begin("RETENTION", wall_ns, out);
    json_member_string(&j, "setting", t->setting);
    json_member_string(&j, "file", t->name);
    json_member_uint(&j, "firstSequence", t->first_sequence);
    json_member_uint(&j, "lastSequence", t->last_sequence);
    record_text_hash(&j, "firstPrev", t->first_prev);
    record_text_hash(&j, "lastHash", t->last_hash);
    json_member_uint(&j, "lines", t->lines);
    record_text_hash(&j, "fileSHA256", t->file_sha256);
    json_end_object(&j);
    json_end_object(&j);
}

void tombstone_write_erasure(const struct tombstone_erasure *t, int64_t wall_ns, struct buf *out)
{
    struct json_out j = begin("ERASURE", wall_ns, out);
    json_member_string(&j, "userUID", t->user_uid);
    json_member_string(&j, "file", t->name);
    json_key(&j, "lines");
    json_begin_array(&j);
    for (size_t i = 0; i < t->count; i++) {
        json_begin_object(&j);
        json_member_uint(&j, "sequence", t->lines[i].sequence);
        record_text_hash(&j, "sha256", t->lines[i].hash);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
    json_end_object(&j);
}

void tombstone_write_stub(uint64_t sequence, const uint8_t prev[HASH_BYTES],
                          const uint8_t hash[HASH_BYTES], struct buf *out)
{
    char prev_hex[HASH_HEX_SIZE];
    char hash_hex[HASH_HEX_SIZE];
    hex_encode(prev, HASH_BYTES, prev_hex);
    hex_encode(hash, HASH_BYTES, hash_hex);
    buf_printf(out,
               "{\"sequence\":%" PRIu64
               ",\"prev\":\"%s\",\"kind\":\"AuditErased\",\"sha256\":\"%s\"}",
               sequence, prev_hex, hash_hex);
}

static bool read_file(const struct tree_node *map, struct tombstone_file *ret)
{
    ret->name = record_text_read(map, "file");
    ret->setting = record_text_read(map, "setting");
    return ret->name && ret->setting &&
           record_text_read_number(map, "firstSequence", &ret->first_sequence) &&
           record_text_read_number(map, "lastSequence", &ret->last_sequence) &&
           record_text_read_hash(map, "firstPrev", ret->first_prev) &&
           record_text_read_hash(map, "lastHash", ret->last_hash) &&
           record_text_read_number(map, "lines", &ret->lines) &&
           record_text_read_hash(map, "fileSHA256", ret->file_sha256);
}

static bool read_erasure(const struct tree_node *map, struct arena *arena,
                         struct tombstone_erasure *ret)
{
    const struct tree_node *list = tree_member(map, "lines");
    ret->name = record_text_read(map, "file");
    ret->user_uid = record_text_read(map, "userUID");
    if (!ret->name || !ret->user_uid || !list || list->type != TREE_LIST) {
        return false;
    }
    struct chain *lines = arena_calloc(arena, list->count, sizeof *lines);
    for (const struct tree_node *n = lines ? list->first : NULL; n; n = n->next) {
        struct chain *line = &lines[ret->count++];
        if (!record_text_read_number(n, "sequence", &line->sequence) ||
            !record_text_read_hash(n, "sha256", line->hash)) {
            return false;
        }
    }
    ret->lines = lines;
    return lines;
}

bool tombstone_read(struct str line, struct arena *arena, struct tombstone *ret)
{
    const struct tree_node *root = NULL;
    struct error ignored;
    *ret = (struct tombstone){0};
    if (json_read(line, arena, &root, &ignored) < 0) {
        return false;
    }
    const struct tree_node *map = tree_member(root, "tombstone");
    const char *reason = record_text_read(map, "reason");
    ret->is_erasure = reason && strcmp(reason, "ERASURE") == 0;
    return ret->is_erasure
               ? read_erasure(map, arena, &ret->erasure)
               : reason && strcmp(reason, "RETENTION") == 0 && read_file(map, &ret->file);
}
