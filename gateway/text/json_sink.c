#include "gateway/text/json_sink.h"

static void out_begin_map(void *state)
{
    json_begin_object(state);
}

static void out_end_map(void *state)
{
    json_end_object(state);
}

static void out_begin_list(void *state)
{
    json_begin_array(state);
}

static void out_end_list(void *state)
{
    json_end_array(state);
}

static void out_key(void *state, struct str key)
{
    json_key_str(state, key);
}

static void out_string(void *state, struct str text)
{
    json_string(state, text);
}

static void out_real(void *state, double value)
{
    json_double(state, value);
}

static void out_word(void *state, const char *text)
{
    json_raw(state, str_from(text));
}

struct sink json_sink(struct json_out *j)
{
    static const struct sink_ops ops = {
        .begin_map = out_begin_map,
        .end_map = out_end_map,
        .begin_list = out_begin_list,
        .end_list = out_end_list,
        .key = out_key,
        .string = out_string,
        .real = out_real,
        .word = out_word,
    };
    return (struct sink){&ops, j};
}
