# Every program of a folder through the product, by its header: make cases [CASES=FOLDER] [ONLY=PART].
# The programs come from elsewhere; where they are not, that is said (and a failure with MUST_WORK=1).
CASES ?= ../shared/cases
cases: all
	@$(NEEDS_ROOT)
	@if [ -d "$(CASES)" ]; then tests/cases/run.sh "$(CASES)" $(ONLY); \
	else echo "skipped: no cases in $(CASES)"; echo "0 passed, 0 failed, 1 skipped"; [ "$(MUST_WORK)" != 1 ]; fi
.PHONY: cases

# The one parser of what programs inside a sandbox write (BUILD=fuzz).
$(OUT)/tests/fuzz/fuzz_oneshot_files: $(OUT)/tests/fuzz/fuzz_oneshot_files.o $(OUT)/gateway/services/oneshot_files.o \
	$(OUT)/gateway/services/oneshot_output.o $(OUT)/libdata.a
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(DATA_LIBS) -o $@
