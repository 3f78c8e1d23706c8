#ifndef GATEWAY_RPC_SCHEMA_TABLE_H
#define GATEWAY_RPC_SCHEMA_TABLE_H

#include "gateway/rpc/schema.h"

/* Defined in the generated api/schema_table.c; used by schema.c only. */
extern const struct schema_message schema_message_table[]; /* sorted by full name */
extern const size_t schema_message_count;
extern const struct schema_method schema_method_table[]; /* sorted by path */
extern const size_t schema_method_count;
struct schema_symbol {
    const char *name;
    uint16_t file; /* index in schema_file_table */
};
extern const struct schema_file schema_file_table[];
extern const size_t schema_file_count;
extern const struct schema_symbol schema_symbol_table[]; /* sorted by name */
extern const size_t schema_symbol_count;
extern const uint8_t schema_file_set_bytes[];
extern const size_t schema_file_set_len;

#endif
