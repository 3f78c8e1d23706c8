# Hostile neighbours at once, and how much of the executor is trusted code.

NEIGHBOURS := $(OUT)/tests/attack/neighbours
$(NEIGHBOURS): tests/attack/neighbours.c
	@mkdir -p $(@D)
	@$(CC) -std=gnu17 -D_GNU_SOURCE -O1 $(WARN) -static $< -o $@

# On a platform of its own. HOSTILE=20 ROUNDS=3 KINDS="spin fork ..." say otherwise.
neighbours: all build/venv/.made $(NEIGHBOURS)
	@$(NEEDS_ROOT)
	@NEIGHBOURS=$(NEIGHBOURS) tests/attack/neighbours.sh
.PHONY: neighbours

size:
	@tests/size.sh
.PHONY: size
