#ifndef GATEWAY_RPC_SCHEMA_TABLE_H
#define GATEWAY_RPC_SCHEMA_TABLE_H

#include "gateway/rpc/schema.h"

/* Defined in the generated api/schema_table.c; used by schema.c only. */
extern const struct schema_message schema_message_table[]; /* sorted by full name */
extern const size_t schema_message_count;
extern const struct schema_method schema_method_table[]; /* sorted by path */
extern const size_t schema_method_count;
extern const uint8_t schema_file_set_bytes[];
extern const size_t schema_file_set_len;

#endif
