#ifndef AUDITFILE_FRAME_H
#define AUDITFILE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* zstd frames, each on its own (RFC 8878). The one place that knows libzstd. */

/* How long the first frame of these bytes is. 1; or 0 when more of them are needed; or DATA_LOSS
 * when they are no frame, or one without a content size, or of more than SEGMENT_LINE_MAX_BYTES. */
int frame_measure(struct str bytes, size_t *ret_bytes, struct error *err);

/* How long its content is; of one whole frame. DATA_LOSS as above. */
int frame_content_size(struct str frame, size_t *ret, struct error *err);

/* Appends the content of one whole frame. DATA_LOSS when its checksum or anything else is wrong. */
int frame_decode(struct str frame, struct buf *out, struct error *err);

struct frame_encoder;
struct frame_encoder *frame_encoder_new(void); /* NULL without memory */
void frame_encoder_free(struct frame_encoder *e);

/* Appends one frame with content size and checksum. */
int frame_encode(struct frame_encoder *e, struct str content, struct buf *out, struct error *err);

#endif
