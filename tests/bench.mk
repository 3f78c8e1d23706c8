# What a sandbox costs and where the time goes, beside bubblewrap; under a minute, as root.

BENCH_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard tests/bench/*.c))
BENCH_CLI := $(filter-out $(OUT)/gateway/cli/main.o,$(CLI_INPUTS))
$(BENCH_OBJECTS): | $(API_STAMP)
$(OUT)/sandbox_bench: $(BENCH_OBJECTS) $(BENCH_CLI) $(OUT)/libexecutor_client.a
	@$(CC) $(LDFLAGS) $^ $(CLI_LIBS) -o $@

bench-quick: all $(OUT)/sandbox_bench
	@tests/bench/bench.sh

# All of them, one after the other: sandboxes, wire, policy engine.
bench:
	@$(MAKE) --no-print-directory bench-quick
	@$(MAKE) --no-print-directory bench-edge
	@$(MAKE) --no-print-directory bench-policy
.PHONY: bench bench-quick
