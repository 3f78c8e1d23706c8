#ifndef SERVICES_SPEC_CHECK_H
#define SERVICES_SPEC_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/base/status.h"

/* Small checks that the spec rules are made of. Each returns 0 or -INVALID_ARGUMENT with the
 * field's path in the text. */

/* The path of a field: "spec.runtime.tasks[2].run". */
struct spec_path {
    char text[256];
};

struct spec_path spec_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Length in bytes; min 1 means "must be set". */
int spec_check_length(const char *value, size_t min, size_t max, const char *field,
                      struct error *err);
int spec_check_count(size_t count, size_t max, const char *field, struct error *err);

/* 1 to max bytes of printable ASCII. */
int spec_check_ascii(const char *value, size_t max, const char *field, struct error *err);

/* At most 256 bytes, "https://" and a host. A text with "${{" is let through: it is checked when
 * the variables are known. */
int spec_check_https_url(const char *url, const char *field, struct error *err);

/* "" or absolute, at most 256 bytes, without control characters. */
int spec_check_working_dir(const char *path, const char *field, struct error *err);

/* "spec.x: 'value' problem". */
int spec_refuse(struct error *err, const char *field, const char *value, const char *problem);

/* True for a text that holds a variable, so that its final form is not known yet. */
bool spec_has_variable(const char *text);

#endif
