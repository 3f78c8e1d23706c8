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
