# gateway/: the unprivileged daemon, the API schema and the command line client.

# The API: protoc makes a descriptor set of gateway/api, pbgen makes our tables of it, and
# protoc-gen-c makes C of what pbgen left for it. One stamp stands for all that is generated.
API_PROTOS := $(wildcard gateway/api/*.proto)
API_NAMES := $(patsubst gateway/%.proto,%,$(API_PROTOS)) \
	google/protobuf/timestamp google/protobuf/duration google/protobuf/struct
API_STAMP := $(OUT)/api/.made
API_SOURCES := $(patsubst %,$(OUT)/%.pb-c.c,$(API_NAMES)) $(OUT)/api/schema_table.c
API_OBJECTS := $(API_SOURCES:.c=.o)
PROTO_INCLUDE := $(shell $(PKG_CONFIG) --variable=includedir protobuf 2>/dev/null || echo /usr/include)
PBGEN := $(OUT)/pbgen/pbgen

$(PBGEN): gateway/rpc/tools/pbgen.c
	@mkdir -p $(@D)
	@protoc -I$(PROTO_INCLUDE) --c_out=$(@D) google/protobuf/descriptor.proto
	@gcc -std=gnu17 -O1 $(WARN) -I$(@D) $< -x c $(@D)/google/protobuf/descriptor.pb-c.c -lprotobuf-c -o $@

$(API_STAMP): $(API_PROTOS) $(PBGEN)
	@mkdir -p $(@D)
	@echo PROTOC gateway/api
	@protoc -Igateway -I$(PROTO_INCLUDE) --include_imports --descriptor_set_out=$(@D)/api.pb \
		$(API_PROTOS) google/protobuf/duration.proto
	@$(PBGEN) $(@D)/api.pb $(@D)/rewritten.pb $(@D)/schema_table.c $(@D)/schema_index.h
	@protoc --descriptor_set_in=$(@D)/rewritten.pb --c_out=$(OUT) $(addsuffix .proto,$(API_NAMES))
	@touch $@

$(API_SOURCES) $(patsubst %,$(OUT)/%.pb-c.h,$(API_NAMES)): $(API_STAMP) ;

# Generated code is not held to our warnings.
$(API_OBJECTS): $(OUT)/%.o: $(OUT)/%.c
	@echo CC $<
	@$(CC) $(CPPFLAGS) $(filter-out $(WARN),$(CFLAGS)) -MMD -MP -c $< -o $@

# Whoever may include a generated header waits for it; -MMD knows the rest.
$(patsubst %.c,$(OUT)/%.o,$(wildcard gateway/*.c gateway/*/*.c tests/unit/gateway/*.c tests/unit/cli/*.c tests/fuzz/*.c tests/tools/*.c)): | $(API_STAMP)

GATEWAY_SOURCES := $(filter-out gateway/main.c,$(wildcard gateway/*.c gateway/edge/*.c gateway/identity/*.c \
	gateway/rpc/*.c gateway/authorize/*.c gateway/policyfile/*.c gateway/audit/*.c gateway/auditfile/*.c gateway/services/*.c gateway/state/*.c gateway/telemetry/*.c gateway/text/*.c))
GATEWAY_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(GATEWAY_SOURCES))
GATEWAY_LIBS := -lprotobuf-c -lnghttp2 -lssl -lcrypto -luv -lsqlite3 -lyaml -lcjson -lcurl -lseccomp -lcap -lz -lzstd

# Schema, codec and store alone: for tools, fuzz targets and tests that need no server.
DATA_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard gateway/rpc/codec*.c gateway/rpc/schema.c gateway/text/*.c gateway/state/*.c)) $(API_OBJECTS)
DATA_LIBS := -lprotobuf-c -lsqlite3 -lyaml -lm
$(OUT)/libdata.a: $(DATA_OBJECTS) $(BASE_OBJECTS)

$(OUT)/libgateway.a: $(GATEWAY_OBJECTS) $(API_OBJECTS)

$(OUT)/cordium-gateway: $(OUT)/gateway/main.o $(OUT)/libgateway.a $(OUT)/libexecutor_client.a $(OUT)/libproc.a $(OUT)/libpolicy.a
	$(CC) $(LDFLAGS) $^ $(GATEWAY_LIBS) $(POLICY_LIBS) -o $@

PROGRAMS += $(OUT)/cordium-gateway

# The codec alone, for programs that speak the API without being the gateway.
CODEC_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard gateway/rpc/schema.c gateway/rpc/codec*.c gateway/text/*.c))
$(OUT)/libcodec.a: $(CODEC_OBJECTS) $(API_OBJECTS) $(BASE_OBJECTS)

CLI_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard gateway/cli/*.c))
CLI_LIBS := -lprotobuf-c -lyaml -lcurl $(POLICY_LIBS)
# What the client needs to judge policy files without a server.
POLICYFILE_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard gateway/policyfile/*.c) gateway/state/store_kind.c \
	$(addprefix gateway/authorize/,ctx_schema.c message_view.c policy_source_of.c system_policies.c text_diff.c) \
	gateway/audit/wall_time.c)
$(OUT)/libpolicyfile.a: $(POLICYFILE_OBJECTS)
CLI_INPUTS := $(CLI_OBJECTS) $(OUT)/libpolicyfile.a $(OUT)/libcodec.a $(OUT)/libproc.a $(OUT)/libpolicy.a

$(OUT)/cordium: $(CLI_INPUTS)
	$(CC) $(LDFLAGS) $(CLI_INPUTS) $(CLI_LIBS) -o $@

# Its own unit tests, tests/unit/cli.
UNIT_LIBS_cli := $(filter-out %/main.o,$(CLI_INPUTS))
UNIT_SYSTEM_LIBS_cli := $(CLI_LIBS)

$(OUT)/octeliumctl: $(OUT)/cordium
	@ln -sf cordium $@

# The client as it is mounted inside workspaces, where the image may have no libc, or another one:
# it brings its own loader and libraries and needs nothing but the kernel.
SANDBOX_TOOLS := $(OUT)/sandbox-tools
# Puts files into sandboxes and takes them out; static, for images without a libc.
$(OUT)/cordium-files: gateway/files/main.c policy/base/utf8.c gateway/services/oneshot_file_kinds.h \
	gateway/services/oneshot_path.h
	@echo CC $<
	@$(CC) $(CPPFLAGS) -std=gnu17 -D_GNU_SOURCE -O2 $(WARN) -static $(filter %.c,$^) -o $@

$(SANDBOX_TOOLS)/.made: $(CLI_INPUTS) gateway/cli/bundle.sh $(OUT)/cordium $(OUT)/cordium-image $(OUT)/cordium-files
	@rm -rf $(@D)
	@mkdir -p $(@D)/bin $(@D)/lib
	$(CC) $(LDFLAGS) $(CLI_INPUTS) $(CLI_LIBS) -Wl,--dynamic-linker=/opt/cordium/lib/ld.so \
		-Wl,-rpath,/opt/cordium/lib -Wl,--disable-new-dtags -o $(@D)/bin/cordium
	@sh gateway/cli/bundle.sh $(OUT)/cordium $(@D)
	@ln -sf cordium $(@D)/bin/octeliumctl
	@cp $(OUT)/cordium-image $(OUT)/cordium-files $(@D)/bin/
	@touch $@

PROGRAMS += $(OUT)/cordium-files $(OUT)/cordium $(OUT)/octeliumctl $(SANDBOX_TOOLS)/.made

$(OUT)/tests/fuzz/fuzz_policy_file: $(OUT)/tests/fuzz/fuzz_policy_file.o $(OUT)/libpolicyfile.a $(OUT)/libcodec.a $(OUT)/libpolicy.a
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(CLI_LIBS) -o $@

# Telemetry's messages, without the gateway around them.
FUZZ_TELEMETRY_OBJECTS := $(patsubst %,$(OUT)/gateway/%.o,telemetry/audit_facts telemetry/otlp_logs telemetry/otlp_message \
	telemetry/proto_out telemetry/syslog_message identity/token audit/wall_time)
$(OUT)/tests/fuzz/fuzz_telemetry: $(OUT)/tests/fuzz/fuzz_telemetry.o $(FUZZ_TELEMETRY_OBJECTS) $(OUT)/libdata.a
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(DATA_LIBS) -lcrypto -o $@
