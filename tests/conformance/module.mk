# tests/conformance/: the public CEL vectors as JSON. `make conformance VECTORS=folder`; with
# CONFORMANCE_FLAGS=-v the vectors that need protobuf messages are listed by name.

VECTORS ?= ../shared/cel-conformance

$(OUT)/tests/conformance/run_cel: $(OUT)/tests/conformance/run_cel.o $(OUT)/tests/conformance/vector_value.o $(OUT)/libpolicy.a
	@$(CC) $(LDFLAGS) $^ $(POLICY_LIBS) -lcjson -o $@

conformance: $(OUT)/tests/conformance/run_cel
	$< $(VECTORS) $(CONFORMANCE_FLAGS)

.PHONY: conformance

# Regular expressions against RE2: what it said of a few thousand patterns is kept in testdata, and
# `make regex-differential SEED=7` asks RE2 itself about others.
$(OUT)/tests/conformance/run_regex: $(OUT)/tests/conformance/run_regex.o $(OUT)/libpolicy.a
	@$(CC) $(LDFLAGS) $^ $(POLICY_LIBS) -lcjson -o $@

regex-conformance: $(OUT)/tests/conformance/run_regex
	$< testdata/regex/re2.jsonl

build/venv/.re2: build/venv/.made
	$(@D)/bin/pip install -q google-re2==1.1.20251105
	@touch $@

SEED ?= 1
regex-differential: $(OUT)/tests/conformance/run_regex build/venv/.re2
	build/venv/bin/python tests/conformance/regex_re2.py --seed $(SEED) --count 20000 >$(OUT)/tests/conformance/re2.jsonl
	$< $(OUT)/tests/conformance/re2.jsonl

.PHONY: regex-conformance regex-differential
