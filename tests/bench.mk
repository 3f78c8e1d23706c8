# What a sandbox costs and where the time goes, beside bubblewrap; under a minute, as root.

BENCH_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(filter-out tests/bench/audit_log_bench.c,$(wildcard tests/bench/*.c)))
BENCH_CLI := $(filter-out $(OUT)/gateway/cli/main.o,$(CLI_INPUTS))
$(BENCH_OBJECTS): | $(API_STAMP)
$(OUT)/sandbox_bench: $(BENCH_OBJECTS) $(BENCH_CLI) $(OUT)/libexecutor_client.a
	@$(CC) $(LDFLAGS) $^ $(CLI_LIBS) -o $@

bench-quick: all $(OUT)/sandbox_bench
	@tests/bench/bench.sh

# All of them, one after the other: sandboxes, wire, policy engine, audit log.
bench:
	@$(MAKE) --no-print-directory bench-quick
	@$(MAKE) --no-print-directory bench-edge
	@$(MAKE) --no-print-directory bench-policy
	@$(MAKE) --no-print-directory bench-audit-log
	@$(MAKE) --no-print-directory bench-audit
.PHONY: bench bench-quick

# A line of the audit log, and the verification of 300 MB of them, in memory and on the disk.
$(OUT)/tests/bench/audit_log_bench.o: | $(API_STAMP)
$(OUT)/audit_log_bench: $(OUT)/tests/bench/audit_log_bench.o $(UNIT_LIBS_gateway)
	@$(CC) $(LDFLAGS) $^ $(UNIT_SYSTEM_LIBS_gateway) -o $@
bench-audit-log: $(OUT)/audit_log_bench
	@rm -rf /dev/shm/cordium-audit-log-bench* build/audit-log-bench*
	@echo "in memory:" && $(OUT)/audit_log_bench /dev/shm/cordium-audit-log-bench 300000 100
	@mkdir -p build && echo "on the disk:" && $(OUT)/audit_log_bench build/audit-log-bench 2000 1
	@rm -rf /dev/shm/cordium-audit-log-bench* build/audit-log-bench*
.PHONY: bench-audit-log
