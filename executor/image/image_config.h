#ifndef EXECUTOR_IMAGE_IMAGE_CONFIG_H
#define EXECUTOR_IMAGE_IMAGE_CONFIG_H

#include "executor/image/account.h"
#include "executor/image/command.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"

/* What an image says about how to run it, and the JSON that this program ends with. */
struct image_config;

/* Reads the answer of `buildah inspect --type image`. Free *ret with image_config_free(). */
int image_config_parse(struct str json, struct image_config **ret, struct error *err);
void image_config_free(struct image_config *config);

struct image_result {
    const struct image_config *config; /* NULL: none is known */
    const struct account *account;
    const char *digest; /* "sha256:..." of the image's configuration */
    uint64_t size_bytes;
    uint64_t file_count;
    uint64_t build_ms;
};

/* One line of JSON and its end of line, as executor/image/README.md describes it. */
void image_result_write(struct buf *out, const struct image_result *result);
void image_failure_write(struct buf *out, const struct error *err, const struct build_log *log);

#endif
