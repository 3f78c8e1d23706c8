# gateway/: the unprivileged daemon, the API schema and the command line client.

API_PROTOS := $(wildcard gateway/api/*.proto)
GATEWAY_SOURCES := $(filter-out gateway/main.c,$(wildcard gateway/*.c gateway/edge/*.c gateway/identity/*.c \
	gateway/rpc/*.c gateway/authorize/*.c gateway/audit/*.c gateway/services/*.c gateway/state/*.c gateway/text/*.c))
GATEWAY_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(GATEWAY_SOURCES))
GATEWAY_LIBS := -lprotobuf-c -lnghttp2 -lssl -lcrypto -luv -lsqlite3 -lyaml -lcjson -lcurl -lseccomp -lcap -lz

$(OUT)/libgateway.a: $(GATEWAY_OBJECTS) $(API_OBJECTS)

$(OUT)/cordium-gateway: $(OUT)/gateway/main.o $(OUT)/libgateway.a $(OUT)/libexecutor_client.a $(OUT)/libproc.a $(OUT)/libpolicy.a
	$(CC) $(LDFLAGS) $^ $(GATEWAY_LIBS) $(POLICY_LIBS) -o $@

PROGRAMS += $(OUT)/cordium-gateway
