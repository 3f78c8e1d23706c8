# tests/attack/: known ways out of sandboxes, tried through the whole product.

ATTEMPTS := $(OUT)/tests/attack/attempts
ATTEMPTS_SOURCES := $(wildcard tests/attack/attempts/*.c)
$(ATTEMPTS): $(ATTEMPTS_SOURCES) tests/attack/attempts/attempt.h
	@mkdir -p $(@D)
	@$(CC) -std=gnu17 -D_GNU_SOURCE -I. -O1 $(WARN) -static $(ATTEMPTS_SOURCES) -o $@

attack: $(OUT)/executor_probe $(ATTEMPTS)
	@$(NEEDS_ROOT)
	@$(MAKE) --no-print-directory all build/venv/.made
	@tests/attack/run.sh $(ROWS)
.PHONY: attack
