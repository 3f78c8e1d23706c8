# executor/image/: the program that makes images inside a build sandbox. No part of the daemon.

IMAGE_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(filter-out executor/image/main.c,$(wildcard executor/image/*.c)))

$(OUT)/libimage.a: $(IMAGE_OBJECTS)

$(OUT)/cordium-image: $(OUT)/executor/image/main.o $(OUT)/libimage.a $(OUT)/libproc.a $(OUT)/libbase.a
	@echo LD $@
	@$(CC) $(LDFLAGS) $^ -lcjson -o $@

PROGRAMS += $(OUT)/cordium-image

UNIT_LIBS_image := $(OUT)/libimage.a $(OUT)/libproc.a $(OUT)/libbase.a
UNIT_SYSTEM_LIBS_image := -lcjson

IMAGE_FUZZ := dockerfile build_log
$(patsubst %,$(OUT)/tests/fuzz/fuzz_%,$(IMAGE_FUZZ)): $(OUT)/tests/fuzz/fuzz_%: $(OUT)/tests/fuzz/fuzz_%.o $(OUT)/libimage.a $(OUT)/libbase.a
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ -lcjson -lm -o $@

# The pipeline in a real build sandbox, with an executor and a registry of its own; needs root.
check-image: $(OUT)/cordium-image $(OUT)/cordium-executor $(OUT)/executor_probe build/release/cordium-launcher
	tests/demo/base-image.sh build/base
	python3 tests/system/test_image.py $(OUT)
.PHONY: check-image
