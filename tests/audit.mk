# The audit log as a whole: make check-audit [MINUTES=10] [SEED=N] [LINES=50000]

AUDIT_PROGRAMS := $(addprefix build/release/,executor_probe audit_bench audit_log_bench tests/tools/audit_generate \
	tests/unit/gateway/runner)
# NAME=VALUE of a setting that whoever calls make gave; other targets have defaults for some of them.
AUDIT_GIVEN = $(if $(filter command environment,$(firstword $(origin $(1)))),$(1)=$($(1)))
check-audit: build/venv/.made
	@$(NEEDS_ROOT)
	@$(MAKE) --no-print-directory -j2 BUILD=release all $(AUDIT_PROGRAMS)
	@$(foreach v,MINUTES SEED LINES KILL_SECONDS,$(call AUDIT_GIVEN,$(v))) tests/audit/check-audit.sh
.PHONY: check-audit
