# tests/conformance/: the public CEL vectors as JSON. `make conformance VECTORS=folder`.

VECTORS ?= ../shared/cel-conformance

$(OUT)/tests/conformance/run_cel: $(OUT)/tests/conformance/run_cel.o $(OUT)/tests/conformance/vector_value.o $(OUT)/libpolicy.a
	@$(CC) $(LDFLAGS) $^ $(POLICY_LIBS) -lcjson -o $@

conformance: $(OUT)/tests/conformance/run_cel
	$< $(VECTORS)

.PHONY: conformance
