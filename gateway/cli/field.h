#ifndef CLI_FIELD_H
#define CLI_FIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"

/* Members of a message by dotted path of field names ("metadata.name"), for code that serves every
 * kind of resource alike. A path that the type lacks is the programmer's error and is asserted,
 * except in field_has(). */
bool field_has(const ProtobufCMessage *message, const char *path);

/* "" when a message on the way is unset. Enums give their value's name, numbers and booleans their
 * text, Timestamps "2026-01-02 03:04:05" in UTC. Lives in the arena or the message. */
const char *field_text(const ProtobufCMessage *message, const char *path, struct arena *arena);

/* NULL when unset. */
ProtobufCMessage *field_message(const ProtobufCMessage *message, const char *path);

/* Makes the messages on the way; text is borrowed. False: the arena is full. */
bool field_set_text(ProtobufCMessage *message, const char *path, const char *text,
                    struct arena *arena);

bool field_set_u32(ProtobufCMessage *message, const char *path, uint32_t value,
                   struct arena *arena);
bool field_set_bool(ProtobufCMessage *message, const char *path, bool value, struct arena *arena);

/* By the value's name; -1 when the enum has no such value (then nothing is set). */
int field_set_enum(ProtobufCMessage *message, const char *path, const char *name,
                   struct arena *arena);

/* Appends to a repeated string, or a new message to a repeated message field. */
bool field_add_text(ProtobufCMessage *message, const char *path, const char *text,
                    struct arena *arena);
ProtobufCMessage *field_add_message(ProtobufCMessage *message, const char *path,
                                    struct arena *arena);

/* The message at the path, made when missing; NULL: the arena is full. */
ProtobufCMessage *field_make(ProtobufCMessage *message, const char *path, struct arena *arena);

/* The repeated message field "items". */
size_t field_items(const ProtobufCMessage *list, ProtobufCMessage ***ret);

#endif
