# policy/: the library (no dependency but libc and, in one file, PCRE2) and celc.

BASE_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard policy/base/*.c))
POLICY_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard policy/cel/*.c policy/lib/*.c policy/decide/*.c))
POLICY_LIBS := -lpcre2-8 -lm

$(OUT)/libbase.a: $(BASE_OBJECTS)
$(OUT)/libpolicy.a: $(POLICY_OBJECTS) $(BASE_OBJECTS)

$(OUT)/celc: $(OUT)/policy/tools/celc.o $(OUT)/libpolicy.a
	$(CC) $(LDFLAGS) $^ $(POLICY_LIBS) -o $@

PROGRAMS += $(OUT)/celc

-include tests/conformance/module.mk

$(OUT)/tests/fuzz/fuzz_cel: $(OUT)/tests/fuzz/fuzz_cel.o $(OUT)/libpolicy.a
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(POLICY_LIBS) -o $@

# The exports against the public headers; makes $(OUT)/embed/libpolicy.a, where the rest is local.
symbols: $(OUT)/libpolicy.a
	@tests/symbols.sh $(OUT) $(OUT)/libpolicy.a

# A copy of this folder alone, with PCRE2 and without.
policy-alone:
	@tests/policy_alone.sh
.PHONY: symbols policy-alone
