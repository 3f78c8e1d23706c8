#ifndef AUDIT_HEX_H
#define AUDIT_HEX_H

#include <stddef.h>
#include <stdint.h>

/* 2 * n lower-case digits and a NUL. */
static inline void hex_encode(const uint8_t *bytes, size_t n, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        ret[2 * i] = digits[bytes[i] >> 4];
        ret[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret[2 * n] = '\0';
}

#endif
