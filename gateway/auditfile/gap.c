#include "gateway/auditfile/gap.h"

#include <string.h>

#include "gateway/auditfile/record_text.h"
#include "gateway/text/json_reader.h"

void gap_write(const struct gap *gap, int64_t wall_ns, struct buf *out)
{
    struct json_out j = json_out_to(out);
    record_text_begin(&j, "AuditGap", wall_ns);
    json_key(&j, "gap");
    json_begin_object(&j);
    if (gap->reason == GAP_TORN) {
        json_member_string(&j, "reason", "TORN");
        json_member_uint(&j, "lines", gap->lines);
        json_member_uint(&j, "bytes", gap->bytes);
        record_text_hash(&j, "sha256", gap->sha256);
        json_member_string(
            &j, "detail",
            "these lines were being written when the machine or the process stopped; "
            "nobody was told that they had been recorded");
    } else {
        json_member_string(&j, "reason", "TAIL_MISSING");
        json_member_uint(&j, "expectedSequence", gap->expected_sequence);
        record_text_hash(&j, "expectedHash", gap->expected_hash);
        json_member_string(&j, "detail",
                           "lines that had been recorded were missing or changed when the log was "
                           "opened; the administrator ordered to go on");
    }
    json_end_object(&j);
    json_end_object(&j);
}

static bool read_members(const struct tree_node *root, struct gap *ret)
{
    const struct tree_node *map = tree_member(root, "gap");
    if (!map) {
        /* The form of earlier versions: one torn line, and a sentence for a reason. */
        ret->reason = GAP_TORN;
        ret->lines = 1;
        return record_text_read(root, "reason");
    }
    const char *reason = record_text_read(map, "reason");
    if (reason && strcmp(reason, "TORN") == 0) {
        ret->reason = GAP_TORN;
        ret->has_extent = true;
        return record_text_read_number(map, "lines", &ret->lines) &&
               record_text_read_number(map, "bytes", &ret->bytes) &&
               record_text_read_hash(map, "sha256", ret->sha256);
    }
    ret->reason = GAP_TAIL_MISSING;
    return reason && strcmp(reason, "TAIL_MISSING") == 0 &&
           record_text_read_number(map, "expectedSequence", &ret->expected_sequence) &&
           record_text_read_hash(map, "expectedHash", ret->expected_hash);
}

bool gap_read(struct str line, struct gap *ret)
{
    struct arena arena;
    const struct tree_node *root = NULL;
    struct error ignored;
    arena_init(&arena, RECORD_TEXT_ARENA_MAX_BYTES);
    *ret = (struct gap){0};
    bool is_read = json_read(line, &arena, &root, &ignored) == 0 && read_members(root, ret);
    arena_free(&arena);
    return is_read;
}
