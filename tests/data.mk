# Schema and codec against other people's: protobuf's own JSON, the published client bindings.

KITCHEN := $(OUT)/tests/kitchen

# A schema of its own for the codec, with every kind of field; made as the API's is.
$(KITCHEN)/.made: tests/tools/kitchen.proto $(PBGEN)
	@mkdir -p $(@D)
	@protoc -Itests/tools -I$(PROTO_INCLUDE) --include_imports --descriptor_set_out=$(@D)/kitchen.pb kitchen.proto
	@$(PBGEN) $(@D)/kitchen.pb $(@D)/rewritten.pb $(@D)/schema_table.c $(@D)/schema_index.h
	@protoc --descriptor_set_in=$(@D)/rewritten.pb --c_out=$(@D) kitchen.proto
	@touch $@
$(KITCHEN)/schema_table.c $(KITCHEN)/kitchen.pb-c.c: $(KITCHEN)/.made ;
$(KITCHEN)/%.o: $(KITCHEN)/%.c | $(API_STAMP)
	@$(CC) $(CPPFLAGS) -I$(KITCHEN) $(filter-out $(WARN),$(CFLAGS)) -c $< -o $@

$(OUT)/tests/tools/codec_convert: $(OUT)/tests/tools/codec_convert.o $(OUT)/libdata.a
	@$(CC) $(LDFLAGS) $^ $(DATA_LIBS) -o $@
$(OUT)/tests/tools/codec_convert_kitchen: $(OUT)/tests/tools/codec_convert.o $(CODEC_OBJECTS) \
		$(KITCHEN)/schema_table.o $(KITCHEN)/kitchen.pb-c.o $(OUT)/libbase.a \
		$(patsubst %,$(OUT)/google/protobuf/%.pb-c.o,timestamp duration struct)
	@$(CC) $(LDFLAGS) $^ $(DATA_LIBS) -o $@

# CODEC_DIFF_COUNT: random messages per schema.
CODEC_DIFF_COUNT ?= 1000
check-codec: $(OUT)/tests/tools/codec_convert $(OUT)/tests/tools/codec_convert_kitchen
	/usr/bin/python3 tests/system/codec_diff.py $(OUT)/tests/tools/codec_convert_kitchen $(KITCHEN)/kitchen.pb $(CODEC_DIFF_COUNT) test.kitchen.Kitchen
	/usr/bin/python3 tests/system/codec_diff.py $(OUT)/tests/tools/codec_convert $(OUT)/api/api.pb $(CODEC_DIFF_COUNT)

# octelium-apis comes with the client library of the demo's venv.
check-schema: $(API_STAMP) build/venv/.made
	build/venv/bin/python tests/system/check_schema.py $(OUT)/api/api.pb
.PHONY: check-codec check-schema

# Fuzz targets of the parsers (BUILD=fuzz): replay a corpus with `make BUILD=fuzz fuzz-replay-data`.
DATA_FUZZ := protobuf json yaml
$(patsubst %,$(OUT)/tests/fuzz/fuzz_%,$(DATA_FUZZ)): $(OUT)/tests/fuzz/fuzz_%: $(OUT)/tests/fuzz/fuzz_%.o $(OUT)/libdata.a
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(DATA_LIBS) -o $@
fuzz-replay-data: $(patsubst %,$(OUT)/tests/fuzz/fuzz_%,$(DATA_FUZZ))
	@for t in $(DATA_FUZZ); do $(OUT)/tests/fuzz/fuzz_$$t -runs=0 testdata/fuzz/$$t 2>&1 | tail -1 || exit 1; done
.PHONY: fuzz-replay-data

# Files of the audit log, with what writes and recovers them (BUILD=fuzz).
AUDITFILE_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard gateway/auditfile/*.c) \
	$(addprefix gateway/audit/,audit_file.c audit_group.c audit_recovery.c wall_time.c) executor/proc/fd.c)
$(OUT)/tests/fuzz/libauditfile.a: $(AUDITFILE_OBJECTS)
$(OUT)/tests/fuzz/fuzz_audit_file: $(OUT)/tests/fuzz/fuzz_audit_file.o $(OUT)/tests/fuzz/libauditfile.a $(OUT)/libdata.a
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(DATA_LIBS) -lzstd -lcrypto -luv -o $@

# What its index reads: lines, and columns of its database.
$(OUT)/tests/fuzz/fuzz_audit_index: $(OUT)/tests/fuzz/fuzz_audit_index.o $(OUT)/tests/fuzz/libauditfile.a $(OUT)/libdata.a
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(DATA_LIBS) -lzstd -lcrypto -luv -o $@
