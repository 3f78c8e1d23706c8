# The audit log as a whole: make check-audit [MINUTES=10] [SEED=N] [LINES=50000]

AUDIT_PROGRAMS := $(addprefix build/release/,executor_probe audit_bench audit_log_bench tests/tools/audit_generate \
	tests/unit/gateway/runner)
check-audit: build/venv/.made
	@$(NEEDS_ROOT)
	@$(MAKE) --no-print-directory -j2 BUILD=release all $(AUDIT_PROGRAMS)
	@MINUTES=$(MINUTES) SEED=$(SEED) LINES=$(if $(filter command% environment%,$(origin LINES)),$(LINES),50000) \
		tests/audit/check-audit.sh
.PHONY: check-audit
