# tests/: one runner a component in tests/unit/<component>/, real programs in tests/system/.
# `make unit-NAME` builds and runs one component's suites.

UNIT_COMPONENTS := $(notdir $(patsubst %/,%,$(wildcard tests/unit/*/)))
CHECK_LIBS := -lcheck -lsubunit -lrt -lpthread
UNIT_LIBS_base := $(OUT)/libbase.a
UNIT_LIBS_policy := $(OUT)/libpolicy.a
UNIT_LIBS_executor := $(OUT)/libexecutor.a $(OUT)/libexecutor_client.a $(OUT)/libproc.a $(OUT)/libbase.a
UNIT_LIBS_gateway := $(OUT)/libgateway.a $(OUT)/libexecutor_client.a $(OUT)/libproc.a $(OUT)/libpolicy.a
UNIT_SYSTEM_LIBS_policy := $(POLICY_LIBS)
UNIT_SYSTEM_LIBS_executor := $(EXECUTOR_LIBS)
UNIT_SYSTEM_LIBS_gateway := $(GATEWAY_LIBS) $(POLICY_LIBS)

include tests/edge.mk
include tests/data.mk
include tests/bench.mk
include tests/cases.mk
include tests/neighbours.mk
include tests/audit.mk
include tests/bench/policy/module.mk
include tests/bench/audit/module.mk
include tests/attack/module.mk

# A runner is made of test_*.c, each of which defines `Suite *suite_<file name without test_>(void)`.
define UNIT_RULES
UNIT_SOURCES_$(1) := $$(wildcard tests/unit/$(1)/test_*.c)
UNIT_HELPERS_$(1) := $$(filter-out $$(UNIT_SOURCES_$(1)),$$(wildcard tests/unit/$(1)/*.c))
$$(OUT)/tests/unit/$(1)/suites.inc: $$(UNIT_SOURCES_$(1))
	@mkdir -p $$(@D)
	@for f in $$(notdir $$(basename $$(UNIT_SOURCES_$(1)))); do echo "SUITE($$$${f#test_})"; done > $$@
$$(OUT)/tests/unit/$(1)/runner.o: tests/unit/runner.c $$(OUT)/tests/unit/$(1)/suites.inc
	@mkdir -p $$(@D)
	@$$(CC) $$(CPPFLAGS) $$(CFLAGS) -DSUITES='"tests/unit/$(1)/suites.inc"' -MMD -MP -c $$< -o $$@
$$(OUT)/tests/unit/$(1)/runner: $$(OUT)/tests/unit/$(1)/runner.o $$(patsubst %.c,$$(OUT)/%.o,$$(UNIT_SOURCES_$(1)) $$(UNIT_HELPERS_$(1))) $$(UNIT_LIBS_$(1))
	@$$(CC) $$(LDFLAGS) $$^ $$(UNIT_SYSTEM_LIBS_$(1)) $$(CHECK_LIBS) -lm -o $$@
unit-$(1): $$(OUT)/tests/unit/$(1)/runner
	CK_FORK=no $$<
.PHONY: unit-$(1)
endef
$(foreach c,$(UNIT_COMPONENTS),$(eval $(call UNIT_RULES,$(c))))

check-unit: $(addprefix unit-,$(UNIT_COMPONENTS))
.PHONY: check-unit

# What runs inside a workspace to look around; static, for images without a libc.
$(OUT)/tests/tools/probe: tests/tools/probe.c
	@mkdir -p $(@D)
	@$(CC) -std=gnu17 -D_GNU_SOURCE -O1 -Wall -Wextra -static $< -o $@

# The order is from cheap to dear: a broken unit shows before the platform is started.
VARIANTS_CHECKED := release asan ubsan
check-all: $(OUT)/tests/tools/probe
	@tests/check.sh \
		"layers=tests/layers.sh" \
		"size=tests/size.sh" \
		"man=tests/man.sh" \
		$(foreach v,$(VARIANTS_CHECKED),$(foreach c,$(UNIT_COMPONENTS),"unit-$(c)-$(v)=$(MAKE) --no-print-directory -j2 BUILD=$(v) unit-$(c)")) \
		"conformance=$(MAKE) --no-print-directory conformance" \
		"conformance-asan=$(MAKE) --no-print-directory -j2 BUILD=asan conformance" \
		"regex=$(MAKE) --no-print-directory regex-conformance" \
		"symbols=$(MAKE) --no-print-directory symbols" \
		"policy-alone=$(MAKE) --no-print-directory policy-alone" \
		"policies=$(MAKE) --no-print-directory check-policies" \
		"codec=$(MAKE) --no-print-directory check-codec" \
		"schema=$(MAKE) --no-print-directory check-schema PYTHON=build/venv/bin/python" \
		"edge=$(MAKE) --no-print-directory check-edge" \
		"image=$(MAKE) --no-print-directory check-image" \
		"edge-asan=$(MAKE) --no-print-directory -j2 BUILD=asan check-edge" \
		"fuzz-corpora=$(MAKE) --no-print-directory -j2 BUILD=fuzz fuzz-replay" \
		"vm=$(MAKE) --no-print-directory check-vm" \
		"system=tests/system/run.sh" \
		"neighbours=$(MAKE) --no-print-directory neighbours" \
		"cases=$(MAKE) --no-print-directory cases" \
		"faults=tests/system/run.sh faults" \
		"audit=$(MAKE) --no-print-directory check-audit" \
		"attack=$(MAKE) --no-print-directory attack" \
		"system-asan=$(MAKE) --no-print-directory -j2 BUILD=asan all && BUILD=asan tests/system/run.sh exec errors policy cli" \
		"seed=tests/system/seed.sh"
.PHONY: check-all

# The policies that come with the product: nothing wrong, and each rule decides one of their tests.
check-policies: $(OUT)/cordium
	$(OUT)/cordium policy check --strict testdata/policies
	$(OUT)/cordium policy check --strict testdata/seed
	$(OUT)/cordium policy test --strict testdata/policies/tests
.PHONY: check-policies

# Other kernels, in QEMU: cgroup v2 and project quota.
VM_PROGRAMS := build/release/cordium-executor build/release/cordium-launcher build/release/executor_probe \
	build/release/tests/unit/executor/runner $(addprefix build/release/tests/tools/,attack executor_without launcher_without)
check-vm:
	@$(NEEDS_ROOT)
	@tests/install-deps.sh $(DEPS_VM) || echo "the packages of check-vm cannot be installed" >&2
	@$(MAKE) --no-print-directory -j2 BUILD=release $(VM_PROGRAMS)
	@tests/vm/check-vm.sh
.PHONY: check-vm

# The OpenTelemetry Collector with what the telemetry tests need of it: about two minutes, once. The
# modules' hashes are in go.sum, so nothing else is asked whether they are the right ones.
build/collector/collector: $(wildcard tests/tools/collector/*)
	@mkdir -p $(@D)
	@echo GO tests/tools/collector
	@cd tests/tools/collector && GOFLAGS=-mod=readonly nice go build -trimpath -ldflags='-s -w' -o ../../../$@ .

# Every fuzz target's corpus, replayed once.
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
fuzz-replay: $(patsubst %,$(OUT)/tests/fuzz/fuzz_%,$(FUZZ_TARGETS))
	@passed=0; failed=0; for t in $(FUZZ_TARGETS); do \
		if $(OUT)/tests/fuzz/fuzz_$$t -runs=0 testdata/fuzz/$$t >$(OUT)/tests/fuzz/$$t.log 2>&1; \
		then passed=$$((passed + 1)); else failed=$$((failed + 1)); tail -n 20 $(OUT)/tests/fuzz/$$t.log; fi; \
	done; echo "$$passed passed, $$failed failed"; [ $$failed = 0 ]
.PHONY: fuzz-replay

# Lines of the audit log on a terminal. Without what clang does not take: libproc's use of seccomp.h, and the commands.
$(OUT)/tests/fuzz/fuzz_audit_story: $(OUT)/tests/fuzz/fuzz_audit_story.o $(OUT)/executor/proc/fd.o \
		$(filter-out %/libproc.a %_commands.o,$(UNIT_LIBS_cli))
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(CLI_LIBS) -o $@
