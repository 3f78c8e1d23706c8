#include "gateway/auditfile/siphash.h"

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static void mix(struct state *s)
{
    s->v0 += s->v1;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v2 = rotate(s->v2, 32);
}

static void add_word(struct state *s, uint64_t word)
{
    s->v3 ^= word;
    mix(s);
    mix(s);
    s->v0 ^= word;
}

/* The machines we run on are little-endian, as the definition wants its words. */
uint64_t siphash(const uint8_t key[SIPHASH_KEY_BYTES], struct str text)
{
    uint64_t k0;
    uint64_t k1;
    memcpy(&k0, key, sizeof k0);
    memcpy(&k1, key + sizeof k0, sizeof k1);
    struct state s = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
                      k1 ^ 0x7465646279746573};
    size_t whole = text.len & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        add_word(&s, str_word(text.ptr + i));
    }
    uint64_t last = (uint64_t)text.len << 56;
    for (size_t i = whole; i < text.len; i++) {
        last |= (uint64_t)(uint8_t)text.ptr[i] << (8 * (i - whole));
    }
    add_word(&s, last);
    s.v2 ^= 0xff;
    for (int i = 0; i < 4; i++) {
        mix(&s);
    }
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
