# The edge without the rest of the gateway: an echo server on it, its unit tests, its attacks.

EDGE_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard gateway/edge/*.c))
EDGE_LIBS := -lnghttp2 -lssl -lcrypto -luv -lz
UNIT_LIBS_edge := $(OUT)/libedge.a
UNIT_SYSTEM_LIBS_edge := $(EDGE_LIBS)

$(OUT)/libedge.a: $(EDGE_OBJECTS) $(BASE_OBJECTS)

$(OUT)/tests/tools/edge_echo: $(OUT)/tests/tools/edge_echo.o $(OUT)/libedge.a
	@$(CC) $(LDFLAGS) $^ $(EDGE_LIBS) -o $@

bench-edge: $(OUT)/tests/tools/edge_echo
	python3 tests/bench/edge_bench.py $(OUT)/tests/tools/edge_echo
.PHONY: bench-edge

# Raw frames, real clients, curl; each prints "N passed, N failed". BUILD=asan, ubsan run the same.
check-edge: unit-edge $(OUT)/tests/tools/edge_echo
	python3 tests/system/test_edge_http2.py $(OUT)/tests/tools/edge_echo
	python3 tests/system/test_edge_http1.py $(OUT)/tests/tools/edge_echo
	python3 tests/system/test_edge_grpcio.py $(OUT)/tests/tools/edge_echo
	python3 tests/system/test_edge_grpclib.py $(OUT)/tests/tools/edge_echo
	python3 tests/system/test_edge_mutation.py $(OUT)/tests/tools/edge_echo 10 1
.PHONY: check-edge

# Fuzz targets of its readers (BUILD=fuzz); corpora in testdata/fuzz.
EDGE_FUZZ := http1 grpc_frame
$(patsubst %,$(OUT)/tests/fuzz/fuzz_%,$(EDGE_FUZZ)): $(OUT)/tests/fuzz/fuzz_%: $(OUT)/tests/fuzz/fuzz_%.o $(OUT)/libedge.a
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(EDGE_LIBS) -o $@

# Health and reflection of a gateway that runs: GATEWAY=host:port CA=ca.pem
check-reflection:
	python3 tests/system/test_edge_reflection.py $(GATEWAY) $(CA)
.PHONY: check-reflection
