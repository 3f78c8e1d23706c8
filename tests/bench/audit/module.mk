# The audit log at size: `make bench-audit [LINES=10000000]` makes a log of that many lines, verifies
# it, indexes it, and asks. The log stays in $(OUT)/bench-audit for the next time.

LINES ?= 1000000
AUDIT_BENCH_LIBS := $(OUT)/libgateway.a $(OUT)/libexecutor_client.a $(OUT)/libproc.a $(OUT)/libpolicy.a
$(OUT)/tests/tools/audit_generate: $(OUT)/tests/tools/audit_generate.o $(AUDIT_BENCH_LIBS)
	@$(CC) $(LDFLAGS) $^ $(GATEWAY_LIBS) $(POLICY_LIBS) -o $@
$(OUT)/audit_bench: $(OUT)/tests/bench/audit/audit_bench.o $(AUDIT_BENCH_LIBS)
	@$(CC) $(LDFLAGS) $^ $(GATEWAY_LIBS) $(POLICY_LIBS) -lm -o $@
$(OUT)/tests/bench/audit/audit_bench.o: | $(API_STAMP)

bench-audit: $(OUT)/audit_bench $(OUT)/tests/tools/audit_generate
	@[ -d $(OUT)/bench-audit/$(LINES) ] || { mkdir -p $(OUT)/bench-audit && \
		$(OUT)/tests/tools/audit_generate $(OUT)/bench-audit/$(LINES) $(LINES); }
	@$(OUT)/audit_bench $(OUT)/bench-audit/$(LINES)
.PHONY: bench-audit
