#include "gateway/services/spec_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { URL_MAX = 256, WORKING_DIR_MAX = 256 };

struct spec_path spec_path(const char *format, ...)
{
    struct spec_path path;
    va_list ap;
    va_start(ap, format);
    /* Paths are made of our own field names; one that were too long would be cut. */
    (void)vsnprintf(path.text, sizeof(path.text), format, ap);
    va_end(ap);
    return path;
}

int spec_refuse(struct error *err, const char *field, const char *value, const char *problem)
{
    return error_set(err, STATUS_INVALID_ARGUMENT, "%s: '%.100s' %s", field, value, problem);
}

bool spec_has_variable(const char *text)
{
    return strstr(text, "${{") != NULL;
}

int spec_check_length(const char *value, size_t min, size_t max, const char *field,
                      struct error *err)
{
    size_t len = strlen(value);
    if (len < min) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s is empty: 1 to %zu bytes are needed",
                         field, max);
    }
    if (len > max) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s is %zu bytes long, the maximum is %zu: shorten it", field, len, max);
    }
    return 0;
}

int spec_check_count(size_t count, size_t max, const char *field, struct error *err)
{
    if (count > max) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s has %zu entries, the maximum is %zu: remove some", field, count, max);
    }
    return 0;
}

int spec_check_ascii(const char *value, size_t max, const char *field, struct error *err)
{
    int status = spec_check_length(value, 1, max, field, err);
    if (status) {
        return status;
    }
    for (const char *c = value; *c; c++) {
        if (*c < ' ' || *c > '~') {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "%s holds a character that is not printable ASCII", field);
        }
    }
    return 0;
}

int spec_check_https_url(const char *url, const char *field, struct error *err)
{
    int status = spec_check_ascii(url, URL_MAX, field, err);
    if (status || spec_has_variable(url)) {
        return status;
    }
    static const char scheme[] = "https://";
    size_t n = sizeof(scheme) - 1;
    if (strncmp(url, scheme, n) != 0) {
        return spec_refuse(err, field, url, "is not an https:// URL");
    }
    if (url[n] == 0 || url[n] == '/' || url[n] == '-' || strchr(url, ' ')) {
        return spec_refuse(err, field, url, "has no valid host, or holds a space");
    }
    return 0;
}

int spec_check_working_dir(const char *path, const char *field, struct error *err)
{
    if (!path[0]) {
        return 0;
    }
    int status = spec_check_length(path, 1, WORKING_DIR_MAX, field, err);
    if (status) {
        return status;
    }
    if (path[0] != '/' && !spec_has_variable(path)) {
        return spec_refuse(err, field, path, "is not an absolute path");
    }
    for (const char *c = path; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 127) {
            return error_set(err, STATUS_INVALID_ARGUMENT, "%s holds a control character", field);
        }
    }
    return 0;
}
