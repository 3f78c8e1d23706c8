# Every program of a folder through the product, by its header: make cases CASES=FOLDER [ONLY=PART]
cases: all
	@tests/cases/run.sh $(CASES) $(ONLY)
.PHONY: cases
