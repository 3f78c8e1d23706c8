#include "gateway/auditfile/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>

#include "gateway/audit/hex.h"
#include "gateway/audit/wall_time.h"
#include "gateway/auditfile/record_text.h"
#include "gateway/text/json_reader.h"

enum { SIGNED_TEXT_SIZE = 192 };

static struct str signed_text(uint64_t sequence, const uint8_t prev[HASH_BYTES],
                              const char *created_at, char ret[SIGNED_TEXT_SIZE])
{
    char hex[HASH_HEX_SIZE];
    hex_encode(prev, HASH_BYTES, hex);
    int n = snprintf(ret, SIGNED_TEXT_SIZE, "cordium-audit-checkpoint-v1\n%" PRIu64 "\n%s\n%s\n",
                     sequence, hex, created_at);
    return n > 0 && n < SIGNED_TEXT_SIZE ? str_make(ret, (size_t)n) : STR_NONE;
}

int checkpoint_write(const struct signing_key *key, uint64_t sequence,
                     const uint8_t prev[HASH_BYTES], int64_t wall_ns, const char *reason,
                     struct buf *out, struct error *err)
{
    char text[SIGNED_TEXT_SIZE];
    char created_at[WALL_TIME_TEXT_SIZE];
    uint8_t signature[SIGNATURE_BYTES];
    char base64[SIGNATURE_BASE64_SIZE];
    wall_time_format_ns(wall_ns, created_at);
    int rc = signing_key_sign(key, signed_text(sequence, prev, created_at, text), signature, err);
    if (rc) {
        return rc;
    }
    signature_to_base64(signature, base64);
    struct json_out j = json_out_to(out);
    record_text_begin(&j, "AuditCheckpoint", wall_ns);
    json_key(&j, "checkpoint");
    json_begin_object(&j);
    json_member_string(&j, "keyID", signing_key_id(key));
    json_member_string(&j, "signature", base64);
    json_member_string(&j, "reason", reason);
    json_end_object(&j);
    json_end_object(&j);
    return 0;
}

static enum checkpoint_verdict judge(const struct tree_node *root, const struct line *line,
                                     const struct public_keys *keys)
{
    char text[SIGNED_TEXT_SIZE];
    uint8_t signature[SIGNATURE_BYTES];
    const struct tree_node *map = tree_member(root, "checkpoint");
    const char *created_at = record_text_read(tree_member(root, "metadata"), "createdAt");
    const char *id = record_text_read(map, "keyID");
    const char *base64 = record_text_read(map, "signature");
    struct str s =
        created_at ? signed_text(line->sequence, line->prev, created_at, text) : STR_NONE;
    if (s.len == 0 || !id || !base64 || !signature_from_base64(str_from(base64), signature)) {
        return CHECKPOINT_MALFORMED;
    }
    return !public_keys_have(keys, str_from(id))                  ? CHECKPOINT_UNKNOWN_KEY
           : public_keys_verify(keys, str_from(id), s, signature) ? CHECKPOINT_GOOD
                                                                  : CHECKPOINT_FORGED;
}

enum checkpoint_verdict checkpoint_verify(const struct line *line, const struct public_keys *keys)
{
    struct arena arena;
    const struct tree_node *root = NULL;
    struct error ignored;
    arena_init(&arena, RECORD_TEXT_ARENA_MAX_BYTES);
    enum checkpoint_verdict verdict = json_read(line->text, &arena, &root, &ignored) == 0
                                          ? judge(root, line, keys)
                                          : CHECKPOINT_MALFORMED;
    arena_free(&arena);
    return verdict;
}
