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

# A runner is made of test_*.c, each of which defines `Suite *suite_<file name without test_>(void)`.
define UNIT_RULES
UNIT_SOURCES_$(1) := $$(wildcard tests/unit/$(1)/test_*.c)
$$(OUT)/tests/unit/$(1)/suites.inc: $$(UNIT_SOURCES_$(1))
	@mkdir -p $$(@D)
	@for f in $$(notdir $$(basename $$(UNIT_SOURCES_$(1)))); do echo "SUITE($$$${f#test_})"; done > $$@
$$(OUT)/tests/unit/$(1)/runner.o: tests/unit/runner.c $$(OUT)/tests/unit/$(1)/suites.inc
	@mkdir -p $$(@D)
	@$$(CC) $$(CPPFLAGS) $$(CFLAGS) -DSUITES='"tests/unit/$(1)/suites.inc"' -MMD -MP -c $$< -o $$@
$$(OUT)/tests/unit/$(1)/runner: $$(OUT)/tests/unit/$(1)/runner.o $$(patsubst %.c,$$(OUT)/%.o,$$(UNIT_SOURCES_$(1))) $$(UNIT_LIBS_$(1))
	@$$(CC) $$(LDFLAGS) $$^ $$(UNIT_SYSTEM_LIBS_$(1)) $$(CHECK_LIBS) -lm -o $$@
unit-$(1): $$(OUT)/tests/unit/$(1)/runner
	CK_FORK=no $$<
.PHONY: unit-$(1)
endef
$(foreach c,$(UNIT_COMPONENTS),$(eval $(call UNIT_RULES,$(c))))

check-unit: $(addprefix unit-,$(UNIT_COMPONENTS))
.PHONY: check-unit
