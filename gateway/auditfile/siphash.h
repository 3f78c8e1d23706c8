#ifndef AUDITFILE_SIPHASH_H
#define AUDITFILE_SIPHASH_H

#include <stdint.h>

#include "policy/base/str.h"

/* SipHash-2-4 (Aumasson and Bernstein, 2012): who does not know the key can neither tell a text by
 * its hash nor make two texts of one hash. */
enum { SIPHASH_KEY_BYTES = 16 };

uint64_t siphash(const uint8_t key[SIPHASH_KEY_BYTES], struct str text);

#endif
