# Builds and checks the whole product. `make demo` and `make check` (as root) need nothing
# installed by hand; `make help` lists the rest.

BUILD ?= release
OUT := build/$(BUILD)
CC := gcc
AR := gcc-ar
PKG_CONFIG ?= pkg-config

WARN := -Wall -Wextra -Werror -Wshadow -Wconversion -Wformat=2 -Wstrict-prototypes \
	-Wmissing-prototypes -Wundef -Wswitch-enum -Wimplicit-fallthrough -Wvla
HARDEN := -fstack-protector-strong -fPIE -fvisibility=hidden -fno-strict-aliasing
CFLAGS_release := -O2 -g -D_FORTIFY_SOURCE=2
CFLAGS_debug := -Og -g -D_FORTIFY_SOURCE=2 -DDEBUG
CFLAGS_asan := -O1 -g -fsanitize=address -fno-omit-frame-pointer
CFLAGS_ubsan := -O1 -g -fsanitize=undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
LDFLAGS_release :=
LDFLAGS_debug :=
LDFLAGS_asan := -fsanitize=address
LDFLAGS_ubsan := -fsanitize=undefined
LDFLAGS_fuzz := -fsanitize=address,undefined
ifeq ($(BUILD),fuzz)
CC := clang-14
AR := llvm-ar-14
endif

CFLAGS := -std=gnu17 -D_GNU_SOURCE $(WARN) $(HARDEN) $(CFLAGS_$(BUILD))
CPPFLAGS := -I. -I$(OUT)
LDFLAGS := -pie -Wl,-z,relro,-z,now -Wl,--as-needed $(LDFLAGS_$(BUILD))

all:

include policy/module.mk
include executor/module.mk
include executor/image/module.mk
include gateway/module.mk
include tests/module.mk

all: $(PROGRAMS)

$(OUT)/%.o: %.c
	@mkdir -p $(@D)
	@echo CC $<
	@$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# Archives are made anew, so that a removed source leaves no stale member behind.
$(OUT)/%.a:
	@mkdir -p $(@D)
	@rm -f $@
	@$(AR) rcs $@ $(filter %.o,$^)

clean:
	rm -rf build/release build/debug build/asan build/ubsan build/fuzz

-include $(shell find $(OUT) -name '*.d' 2>/dev/null)

.PHONY: all clean
.DELETE_ON_ERROR:
