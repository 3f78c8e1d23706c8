#include "gateway/authorize/resource_yaml.h"

#include <stdio.h>

#include "api/meta.pb-c.h"
#include "gateway/authorize/text_diff.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/resource.h"

int resource_write_yaml(const ProtobufCMessage *resource, struct arena *arena, struct buf *out,
                        struct error *err)
{
    ProtobufCMessage *shown = codec_copy(resource, arena);
    Meta__Metadata *m = CODEC_NEW(arena, Meta__Metadata, meta__metadata);
    if (!shown || !m) {
        return resource_no_memory(err);
    }
    const Meta__Metadata *from = resource_metadata(shown);
    if (from) {
        m->name = from->name;
        resource_metadata_take(m, from);
    }
    message_set_pointer(shown, "metadata", m);
    if (protobuf_c_message_descriptor_get_field_by_name(shown->descriptor, "status")) {
        message_set_pointer(shown, "status", NULL);
    }
    return codec_encode_yaml(shown, out, err);
}

int resource_diff(const ProtobufCMessage *before, const ProtobufCMessage *after,
                  struct arena *arena, struct buf *out, struct error *err)
{
    const ProtobufCMessage *named = after ? after : before;
    struct buf old;
    struct buf new;
    char title[256];
    buf_init(&old, RESOURCE_YAML_MAX_BYTES);
    buf_init(&new, RESOURCE_YAML_MAX_BYTES);
    (void)snprintf(title, sizeof title, "%s/%s", named->descriptor->short_name,
                   resource_name(named));
    int rc = before ? resource_write_yaml(before, arena, &old, err) : 0;
    rc = rc || !after ? rc : resource_write_yaml(after, arena, &new, err);
    if (rc == 0) {
        text_diff(title, buf_str(&old), buf_str(&new), out);
    }
    buf_free(&old);
    buf_free(&new);
    return rc;
}
