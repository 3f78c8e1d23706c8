#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* The policy library: expressions in the Common Expression Language (CEL), compiled once and
 * evaluated many times against values that the caller lends.
 *
 *     struct policy_env *env = policy_env_new(POLICY_LIBRARIES_ALL, &err);
 *     policy_compile(env, STR("ctx.user.name == 'ann'"), &compile_arena, &program, &err);
 *     struct policy_value vars[] = {[POLICY_VAR_CTX] = ctx, [POLICY_VAR_ATTRS] = attrs};
 *     policy_eval(program, &(struct policy_input){.vars = vars, .vars_count = 2, ...},
 *                 &eval_arena, &value, &err);
 *
 * An env that gets no more declarations, and every program, may be shared by threads. Declare
 * first, then compile: programs point into their env, which must outlive them. */

enum policy_kind {
    POLICY_ABSENT = 0, /* no value: an unbound variable. Never inside a list or map */
    POLICY_NULL,
    POLICY_BOOL,
    POLICY_INT,
    POLICY_UINT,
    POLICY_DOUBLE,
    POLICY_STRING, /* valid UTF-8 */
    POLICY_BYTES,
    POLICY_LIST,
    POLICY_MAP,
    POLICY_TYPE,
    POLICY_TIMESTAMP,
    POLICY_DURATION,
    POLICY_OPTIONAL,
    POLICY_IP,
    POLICY_CIDR,
    POLICY_FAILURE, /* of the engine: never handed out, never accepted */
};

struct policy_list;
struct policy_map;
struct policy_address;

/* A value, passed by copy. What it points at lives in an arena or belongs to the caller. The hole
 * behind `kind` has no name: with an array there gcc would build and copy every value in memory. */
struct policy_value {
    uint8_t kind; /* enum policy_kind */
    uint32_t len; /* STRING, BYTES, TYPE: bytes; TIMESTAMP: nanoseconds 0..999999999 */
    union {
        bool truth;
        int64_t i; /* INT; TIMESTAMP: seconds since 1970; DURATION: nanoseconds */
        uint64_t u;
        double d;
        const char *text; /* STRING, BYTES, and the name of a TYPE */
        const struct policy_list *list;
        const struct policy_map *map;
        const struct policy_value *inner;     /* OPTIONAL: NULL when none */
        const struct policy_address *address; /* IP, CIDR */
        const void *opaque;
    } as;
};

_Static_assert(sizeof(struct policy_value) == 16, "a value is returned in two registers");

/* Seconds of 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z. */
#define POLICY_TIMESTAMP_SECONDS_MIN (-62135596800LL)
#define POLICY_TIMESTAMP_SECONDS_MAX 253402300799LL

static inline struct policy_value policy_absent(void)
{
    return (struct policy_value){.kind = POLICY_ABSENT};
}

static inline struct policy_value policy_null(void)
{
    return (struct policy_value){.kind = POLICY_NULL};
}

static inline struct policy_value policy_bool(bool v)
{
    return (struct policy_value){.kind = POLICY_BOOL, .as.u = v};
}

static inline struct policy_value policy_int(int64_t v)
{
    return (struct policy_value){.kind = POLICY_INT, .as.i = v};
}

static inline struct policy_value policy_uint(uint64_t v)
{
    return (struct policy_value){.kind = POLICY_UINT, .as.u = v};
}

static inline struct policy_value policy_double(double v)
{
    return (struct policy_value){.kind = POLICY_DOUBLE, .as.d = v};
}

/* What `get` of a list or map gives for what is there and cannot be read; status is negative. */
static inline struct policy_value policy_unreadable(int status)
{
    return (struct policy_value){.kind = POLICY_ABSENT, .as.i = status};
}

/* The status of policy_unreadable(), 0 for any other value. */
static inline int policy_value_status(struct policy_value v)
{
    return v.kind == POLICY_ABSENT ? (int)v.as.i : 0;
}

/* Borrow the bytes, which for a string are valid UTF-8 (the caller's duty: utf8_is_valid()).
 * Texts of 4 GiB or more become policy_unreadable(), on which every evaluation fails. */
static inline struct policy_value policy_string(struct str s)
{
    if (s.len > UINT32_MAX) {
        return policy_unreadable(-STATUS_RESOURCE_EXHAUSTED);
    }
    return (struct policy_value){.kind = POLICY_STRING, .len = (uint32_t)s.len, .as.text = s.ptr};
}

static inline struct policy_value policy_bytes(struct str s)
{
    struct policy_value v = policy_string(s);
    v.kind = v.kind == POLICY_STRING ? POLICY_BYTES : POLICY_ABSENT;
    return v;
}

static inline struct policy_value policy_cstring(const char *s)
{
    return policy_string(str_from(s));
}

/* nanos is 0..999999999, counted forward from seconds. A time outside the years 1..9999 (or bad
 * nanos) becomes policy_unreadable(). */
static inline struct policy_value policy_timestamp(int64_t seconds, uint32_t nanos)
{
    if (seconds < POLICY_TIMESTAMP_SECONDS_MIN || seconds > POLICY_TIMESTAMP_SECONDS_MAX ||
        nanos > 999999999) {
        return policy_unreadable(-STATUS_OUT_OF_RANGE);
    }
    return (struct policy_value){.kind = POLICY_TIMESTAMP, .len = nanos, .as.i = seconds};
}

static inline struct policy_value policy_duration(int64_t nanos)
{
    return (struct policy_value){.kind = POLICY_DURATION, .as.i = nanos};
}

static inline struct policy_value policy_list(const struct policy_list *list)
{
    return (struct policy_value){.kind = POLICY_LIST, .as.list = list};
}

static inline struct policy_value policy_map(const struct policy_map *map)
{
    return (struct policy_value){.kind = POLICY_MAP, .as.map = map};
}

/* The text of a STRING, BYTES or TYPE. */
static inline struct str policy_value_str(struct policy_value v)
{
    return (struct str){v.as.text, v.len};
}

/* How the engine reads a list that it did not make. Functions are called from one evaluation at
 * a time, must not block, and allocate from `arena` only. `get` is called with index < size; it
 * returns the item, or policy_unreadable(-STATUS_RESOURCE_EXHAUSTED) when the arena is full, or
 * with another status: that fails the evaluation. */
struct policy_list_ops {
    size_t (*size)(const struct policy_list *self);
    struct policy_value (*get)(const struct policy_list *self, size_t index, struct arena *arena);
};

/* The same for a map. Keys are BOOL, INT, UINT or STRING.
 *
 * get   the value when the key is there, policy_absent() when not, policy_unreadable() on failure.
 *       A number matches by value: INT 1 finds UINT 1. May be asked for keys of a kind it does not
 *       hold.
 * next  1 and the entry at *cursor (0 at first; the function moves it on), 0 at the end, negative
 *       status on failure. Any order, the same each time. ret_value may be NULL when only the key
 *       is wanted. */
struct policy_map_ops {
    size_t (*size)(const struct policy_map *self);
    struct policy_value (*get)(const struct policy_map *self, struct policy_value key,
                               struct arena *arena);
    int (*next)(const struct policy_map *self, size_t *cursor, struct arena *arena,
                struct policy_value *ret_key, struct policy_value *ret_value);
};

/* A lazy list or map of the caller embeds one of these as its first member:
 *
 *     struct message_map { struct policy_map map; const ProtobufCMessage *message; };
 *     ...
 *     m->map.ops = &message_map_ops;
 *     return policy_map(&m->map);
 *
 * and casts back in its functions. It must outlive the evaluation. */
struct policy_list {
    const struct policy_list_ops *ops;
};

struct policy_map {
    const struct policy_map_ops *ops;
};

/* Built-in list over `count` values that are borrowed for the list's life. NULL: arena is full. */
const struct policy_list *policy_list_build(struct arena *arena, const struct policy_value *items,
                                            size_t count);

struct policy_entry {
    struct policy_value key;
    struct policy_value value;
};

/* Built-in map over borrowed entries, in their order. Look-up is linear in small maps and binary
 * in others. Returns -STATUS_INVALID_ARGUMENT for a key of another kind and for a duplicate
 * (1 and 1u are duplicates), -STATUS_RESOURCE_EXHAUSTED when the arena is full. */
int policy_map_build(struct arena *arena, const struct policy_entry *entries, size_t count,
                     const struct policy_map **ret_map);

/* For whoever reads a value. policy_list_get() returns 0 or a negative status,
 * -STATUS_OUT_OF_RANGE past the end; policy_map_get() 1 and *ret, 0 without such a key, or a
 * negative status; policy_map_next() as `next` above. */
size_t policy_list_size(const struct policy_list *list);
int policy_list_get(const struct policy_list *list, size_t index, struct arena *arena,
                    struct policy_value *ret);
size_t policy_map_size(const struct policy_map *map);
int policy_map_get(const struct policy_map *map, struct policy_value key, struct arena *arena,
                   struct policy_value *ret);
int policy_map_next(const struct policy_map *map, size_t *cursor, struct arena *arena,
                    struct policy_value *ret_key, struct policy_value *ret_value);

/* A wrapped value (copied into the arena), or with NULL the empty optional. ABSENT: arena full. */
struct policy_value policy_optional(struct arena *arena, const struct policy_value *value);

/* Parses an address ("10.0.0.1", "2001:db8::1"); -STATUS_INVALID_ARGUMENT when it is none. */
int policy_ip_parse(struct str text, struct arena *arena, struct policy_value *ret);

/* JSON text to a value: objects become maps, numbers DOUBLE (as google.protobuf.Value does).
 * Strict RFC 8259: valid UTF-8, no duplicate keys, nesting at most 60. The value points into
 * `text`, which must live as long. */
int policy_value_from_json(struct str text, struct arena *arena, struct policy_value *ret,
                           struct error *err);

/* Appends the value to out, in CEL's own notation ({"a": [1, 2u]}, timestamp("...")), at most
 * bytes_max bytes and then "..."; control characters and quotes are escaped. For people. */
void policy_value_print(struct policy_value v, size_t bytes_max, struct buf *out);

/* The name that type(v) prints. */
const char *policy_kind_name(uint8_t kind);

/* What can go wrong in an evaluation. The codes up to POLICY_E_LAST_ABSORBED are errors of the
 * expression: `||`, `&&`, all() and exists() absorb them when the other side decides. The rest
 * are limits; nothing absorbs these. */
enum policy_error {
    POLICY_E_NONE = 0,
    POLICY_E_UNBOUND,       /* a variable without value, an unknown name or function */
    POLICY_E_NO_SUCH_KEY,   /* a map without that key */
    POLICY_E_NO_SUCH_FIELD, /* a member of a value that has no members, null for instance */
    POLICY_E_INDEX_RANGE,
    POLICY_E_NO_SUCH_OVERLOAD,
    POLICY_E_DIVIDE_BY_ZERO,
    POLICY_E_OVERFLOW,
    POLICY_E_RANGE, /* a time outside the years 1..9999 */
    POLICY_E_CONVERSION,
    POLICY_E_INVALID_ARGUMENT,
    POLICY_E_DUPLICATE_KEY,
    POLICY_E_INVALID_REGEX,
    POLICY_E_INVALID_FORMAT,
    POLICY_E_EMPTY_OPTIONAL, /* value() of none */
    POLICY_E_LAST_ABSORBED = POLICY_E_EMPTY_OPTIONAL,
    POLICY_E_COST,
    POLICY_E_ITERATIONS,
    POLICY_E_DEADLINE,
    POLICY_E_DEPTH,
    POLICY_E_MEMORY,
    POLICY_E_REGEX_LIMIT,
    POLICY_E_INPUT, /* a list or map of the caller reported a failure */
};

enum { POLICY_ERROR_COUNT = POLICY_E_INPUT + 1 };

/* "no_such_key" for POLICY_E_NO_SUCH_KEY. */
const char *policy_error_name(int code);

/* True for the errors that mean "the request lacks what the rule looks at": NO_SUCH_KEY,
 * NO_SUCH_FIELD. Octelium treats these as "the rule does not match". */
bool policy_error_is_missing_input(int code);

/* True for the limits, after which the outcome says nothing about the expression. */
bool policy_error_is_limit(int code);

enum policy_library {
    POLICY_LIB_STRINGS = 1 << 0,
    POLICY_LIB_MATH = 1 << 1,
    POLICY_LIB_ENCODERS = 1 << 2,
    POLICY_LIB_BINDINGS = 1 << 3, /* cel.bind */
    POLICY_LIB_LISTS = 1 << 4,
    POLICY_LIB_SETS = 1 << 5,
    POLICY_LIB_REGEX = 1 << 6,
    POLICY_LIB_NETWORK = 1 << 7,
    POLICY_LIB_MACROS2 = 1 << 8, /* two-variable comprehensions */
    POLICY_LIB_OPTIONALS = 1 << 9,
    POLICY_LIB_OCTELIUM = 1 << 10, /* now(), json.*, net.*, time.*, hasAny ... */
    POLICY_LIB_BLOCK = 1 << 11,    /* cel.block, for the conformance runner */
    POLICY_NO_MACROS = 1 << 12,    /* parse without any macro */
};

#define POLICY_LIBRARIES_ALL (POLICY_LIB_BLOCK - 1)

/* Indexes of the variables that every env declares (type dyn). */
enum { POLICY_VAR_CTX = 0, POLICY_VAR_ATTRS = 1, POLICY_VAR_FIRST_DECLARED = 2 };

struct policy_env;
struct policy_program;

/* libraries: POLICY_LIB_* or POLICY_LIBRARIES_ALL. NULL and *err when there is no memory. */
struct policy_env *policy_env_new(unsigned libraries, struct error *err);
void policy_env_free(struct policy_env *env);

/* Declares a variable and gives its index in policy_input.vars. The name may be dotted ("a.b").
 * The type is text: dyn, bool, int, uint, double, string, bytes, null_type, timestamp, duration,
 * list(T), map(K, V), type(T), optional_type(T), net.IP, net.CIDR, or name(T, ...) for a type
 * that only the checker knows. Fails on a type that does not parse. A second declaration of a
 * name replaces its type and keeps its index. */
int policy_env_declare(struct policy_env *env, const char *name, const char *type,
                       size_t *ret_index, struct error *err);

/* Declares a function that is known to the checker only; signature as "string, list(T) -> T"
 * (single capitals are type parameters), with the receiver first when `member`. */
int policy_env_declare_function(struct policy_env *env, const char *name, bool member,
                                const char *signature, struct error *err);

/* Makes a function unknown to later compilations: "regex.replace", "matches". */
int policy_env_disable_function(struct policy_env *env, const char *name, struct error *err);

/* The namespace in which names are looked up first: "com.example"; "" at the start. */
int policy_env_set_container(struct policy_env *env, const char *container, struct error *err);

enum { POLICY_SOURCE_BYTES_MAX = 100000, POLICY_DEPTH_MAX = 250 };

/* Compiles text. The program lives in `arena`, of which the cap bounds the compilation; `text`
 * is copied. On failure returns -STATUS_INVALID_ARGUMENT (syntax, types, bad literal regex) or
 * -STATUS_RESOURCE_EXHAUSTED, and *err has line, column and a text with the source line and a
 * caret below the place. Needs an arena of its own or of the rule set: never the eval arena. */
int policy_compile(const struct policy_env *env, struct str text, struct arena *arena,
                   const struct policy_program **ret_program, struct error *err);

/* The same without the type checker: type errors and unknown names fail at evaluation. */
int policy_compile_unchecked(const struct policy_env *env, struct str text, struct arena *arena,
                             const struct policy_program **ret_program, struct error *err);

struct str policy_program_text(const struct policy_program *program);

/* The deduced type as text: "bool", "list(int)", "dyn". */
const char *policy_program_type(const struct policy_program *program);

/* False when the checker knows that the result is no bool, so that it can't be a condition. */
bool policy_program_may_be_bool(const struct policy_program *program);

/* Appends the plan, one node a line, indented. */
void policy_program_explain(const struct policy_program *program, struct buf *out);

/* One sub-expression and what it gave. code is 0, or the error and value is ABSENT. */
struct policy_trace_step {
    uint32_t begin; /* byte offsets into policy_program_text() */
    uint32_t end;
    int code; /* enum policy_error */
    struct policy_value value;
};

/* Everything an evaluation depends on. Zero limits take the defaults named here. */
struct policy_input {
    const struct policy_value *vars; /* by index; ABSENT or beyond the count: unbound */
    size_t vars_count;
    struct policy_value now;      /* what now() gives: a TIMESTAMP, read once per decision */
    uint64_t cost_max;            /* steps, about; default 1000000 */
    uint64_t iterations_max;      /* turns of all comprehensions together; default 100000 */
    uint64_t deadline_ns;         /* on the clock below; 0: none */
    uint64_t (*clock_ns)(void *); /* monotonic; asked every 1000 steps or so; may be NULL */
    void *clock_context;
    void (*trace)(void *context, const struct policy_trace_step *step); /* may be NULL */
    void *trace_context;
    bool is_brief; /* no words for missing input: the code alone, *err as it was */
};

/* Evaluates. *ret_value lives in `arena` (or in what vars lent). Calls no malloc as long as the
 * arena's lent block suffices (but for json.marshal() and for the words of an error); the arena's
 * cap is the evaluation's memory limit.
 *
 * Returns 0 or a negated enum policy_error, with *err saying what and where (line, column), in
 * words that quote at most a few bytes of the request, escaped. On failure *ret_value is
 * untouched. An error must deny. */
int policy_eval(const struct policy_program *program, const struct policy_input *input,
                struct arena *arena, struct policy_value *ret_value, struct error *err);

#endif
