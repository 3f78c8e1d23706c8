#include "gateway/services/change_outcome.h"

#include "gateway/audit/audit_out.h"
#include "gateway/authorize/policy_store.h"
#include "gateway/authorize/resource_yaml.h"
#include "gateway/gateway.h"

enum {
    OUTCOME_MAX_BYTES = 256 << 10, /* a diff of control characters is six times as long as JSON */
    DIFF_MAX_BYTES = 4 << 20,
};

void change_outcome_set(struct request *r, struct str diff)
{
    struct buf out;
    buf_init(&out, OUTCOME_MAX_BYTES);
    struct json_out j = json_out_to(&out);
    json_begin_object(&j);
    json_member_uint(&j, "policySetVersion", policy_store_version(r->gateway->policies));
    if (diff.len > 0) {
        audit_put_long_text(&j, "diff", diff, CHANGE_DIFF_MAX_BYTES);
        json_member_bool(&j, "diffIsCut", diff.len > CHANGE_DIFF_MAX_BYTES);
    }
    json_end_object(&j);
    if (!out.failed) {
        request_set_outcome(r, buf_str(&out));
    }
    buf_free(&out);
}

void change_outcome_set_resource(struct request *r, const ProtobufCMessage *before,
                                 const ProtobufCMessage *after)
{
    struct buf diff;
    change_diff_begin(&diff);
    change_diff_add(r, &diff, before, after);
    change_diff_end(r, &diff);
}

void change_diff_begin(struct buf *diff)
{
    buf_init(diff, DIFF_MAX_BYTES);
}

void change_diff_add(struct request *r, struct buf *diff, const ProtobufCMessage *before,
                     const ProtobufCMessage *after)
{
    struct error ignored; /* without a diff the record still names the resource and its version */
    if (diff->len <= CHANGE_DIFF_MAX_BYTES) {
        (void)resource_diff(before, after, &r->arena, diff, &ignored);
    } /* else all that follows is cut */
}

int change_diff_add_deleted(struct request *r, struct buf *diff, enum store_kind kind,
                            const struct store_filter *filter, struct error *err)
{
    struct store_list list;
    int status = store_list_all(r->gateway->store, kind, filter, &r->arena, &list, err);
    for (size_t i = 0; !status && i < list.count; i++) {
        change_diff_add(r, diff, list.items[i], NULL);
    }
    return status;
}

void change_diff_end(struct request *r, struct buf *diff)
{
    change_outcome_set(r, diff->failed ? STR_NONE : buf_str(diff));
    buf_free(diff);
}
