# `make bench-policy`: the policy engine beside other people's, and with 1,000 policies. The peers
# are fetched and built under build/bench/ for this alone; one that is out of reach is named.

BENCH_POLICY_LIBS := $(OUT)/libgateway.a $(OUT)/libexecutor_client.a $(OUT)/libproc.a $(OUT)/libpolicy.a
BENCH_POLICY_PROGRAMS := $(OUT)/tests/bench/policy/cordium_side $(OUT)/tests/bench/policy/scale_bench
$(patsubst %,%.o,$(BENCH_POLICY_PROGRAMS)): | $(API_STAMP)
$(BENCH_POLICY_PROGRAMS): %: %.o $(OUT)/tests/bench/policy/allocations.o $(BENCH_POLICY_LIBS)
	@$(CC) $(LDFLAGS) $^ $(GATEWAY_LIBS) $(POLICY_LIBS) $(CHECK_LIBS) -lm -o $@

bench-policy: $(BENCH_POLICY_PROGRAMS)
	@/usr/bin/python3 tests/bench/policy/bench_policy.py $(OUT)/tests/bench/policy
.PHONY: bench-policy
