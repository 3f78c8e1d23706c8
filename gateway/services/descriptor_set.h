#ifndef SERVICES_DESCRIPTOR_SET_H
#define SERVICES_DESCRIPTOR_SET_H

#include "policy/base/arena.h"
#include "policy/base/str.h"

/* Finds things in a serialized google.protobuf.FileDescriptorSet, by walking it. */
struct descriptor_file {
    struct str bytes; /* the serialized FileDescriptorProto; a view */
    struct str name;
    struct str package;
};

struct descriptor_set {
    struct descriptor_file *files;
    size_t count;
};

/* Views of `bytes`; the table lives in the arena. False when that is full or the set is damaged. */
bool descriptor_set_open(struct str bytes, struct arena *arena, struct descriptor_set *ret);

/* NULL when there is none. */
const struct descriptor_file *descriptor_set_file(const struct descriptor_set *set,
                                                  struct str name);

/* The file that defines this full name of a service, method, message, enum or field. */
const struct descriptor_file *descriptor_set_symbol(const struct descriptor_set *set,
                                                    struct str full_name);

/* The file and all that it imports, each once, imports after their importers. ret has room for
 * set->count. */
size_t descriptor_set_closure(const struct descriptor_set *set, const struct descriptor_file *file,
                              const struct descriptor_file **ret);

#endif
