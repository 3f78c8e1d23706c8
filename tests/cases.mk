# Every program of a folder through the product, by its header: make cases CASES=FOLDER [ONLY=PART]
cases: all
	@$(NEEDS_ROOT)
	@[ -n "$(CASES)" ] || { echo "usage: make cases CASES=FOLDER [ONLY=PART]"; exit 1; }
	@tests/cases/run.sh $(CASES) $(ONLY)
.PHONY: cases

# The one parser of what programs inside a sandbox write (BUILD=fuzz).
$(OUT)/tests/fuzz/fuzz_oneshot_files: $(OUT)/tests/fuzz/fuzz_oneshot_files.o $(OUT)/gateway/services/oneshot_files.o \
	$(OUT)/gateway/services/oneshot_output.o $(OUT)/libdata.a
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(DATA_LIBS) -o $@
