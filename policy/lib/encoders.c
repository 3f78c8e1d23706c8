#include "policy/cel/eval.h"

/* base64 of RFC 4648 section 4. */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static struct policy_value encode(struct eval *e, const struct node *n,
                                  const struct policy_value *args)
{
    size_t len = args[0].len;
    const unsigned char *in = (const unsigned char *)args[0].as.text;
    char *out = eval_alloc(e, (len + 2) / 3 * 4);
    size_t used = 0;
    if (!out) {
        return eval_alloc_failed(e, n);
    }
    for (size_t i = 0; i < len; i += 3) {
        uint32_t group = (uint32_t)in[i] << 16;
        group |= i + 1 < len ? (uint32_t)in[i + 1] << 8 : 0;
        group |= i + 2 < len ? in[i + 2] : 0;
        out[used++] = alphabet[group >> 18];
        out[used++] = alphabet[group >> 12 & 63];
        out[used++] = i + 1 < len ? alphabet[group >> 6 & 63] : '=';
        out[used++] = i + 2 < len ? alphabet[group & 63] : '=';
    }
    return eval_take_text(POLICY_STRING, out, used);
}

static int digit_of(char c)
{
    const char *at = c ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

static struct policy_value bad_base64(struct eval *e, const struct node *n)
{
    return eval_fail(e, n, POLICY_E_INVALID_ARGUMENT, "not base64 (RFC 4648, standard alphabet)");
}

static struct policy_value decode(struct eval *e, const struct node *n,
                                  const struct policy_value *args)
{
    struct str in = policy_value_str(args[0]);
    if (in.len % 4 == 0) {
        for (int i = 0; i < 2 && in.len > 0 && in.ptr[in.len - 1] == '='; i++) {
            in.len--;
        }
    }
    if (in.len % 4 == 1) {
        return bad_base64(e, n);
    }
    char *out = eval_alloc(e, in.len / 4 * 3 + 3);
    size_t used = 0;
    uint32_t group = 0;
    if (!out) {
        return eval_alloc_failed(e, n);
    }
    for (size_t i = 0; i < in.len; i++) {
        int digit = digit_of(in.ptr[i]);
        if (digit < 0) {
            return bad_base64(e, n);
        }
        group = (group << 6 | (uint32_t)digit) & 0xFFFFFF;
        if (i % 4 > 0) {
            out[used++] = (char)(group >> (6 - 2 * (i % 4)) & 0xFF);
        }
    }
    return eval_take_text(POLICY_BYTES, out, used);
}

static const struct function_row rows[] = {
    {"base64.encode", 0, "bytes -> string", encode},
    {"base64.decode", 0, "string -> bytes", decode},
};

const struct function_table functions_encoders = {POLICY_LIB_ENCODERS, rows,
                                                  sizeof rows / sizeof rows[0]};
