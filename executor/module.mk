# executor/: the privileged daemon, its static launcher (which is also pid 1 of every sandbox), and
# the client that the gateway links.

PROC_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard executor/proc/*.c))
EXECUTOR_CLIENT_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard executor/client/*.c executor/ipc/*.c))
EXECUTOR_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(filter-out executor/main.c,$(wildcard executor/*.c executor/steps/*.c)) executor/init/privileges.c)
EXECUTOR_LIBS := -lmnl -lnftables
LAUNCHER_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard executor/init/*.c) executor/proc/fd.c \
	executor/ipc/channel.c executor/steps/mounts.c)

$(OUT)/libproc.a: $(PROC_OBJECTS)
$(OUT)/libexecutor_client.a: $(EXECUTOR_CLIENT_OBJECTS)
$(OUT)/libexecutor.a: $(EXECUTOR_OBJECTS)

$(OUT)/cordium-executor: $(OUT)/executor/main.o $(OUT)/libexecutor.a $(OUT)/libexecutor_client.a $(OUT)/libproc.a $(OUT)/libbase.a
	@echo LD $@
	@$(CC) $(LDFLAGS) $^ $(EXECUTOR_LIBS) -o $@

# Static, so that nothing of any image or of the host's libraries is ever loaded into it. Sanitizers
# do not go with static programs: it is always of the release build.
LAUNCHER_CFLAGS := -std=gnu17 -D_GNU_SOURCE $(WARN) $(HARDEN) $(CFLAGS_release)
build/launcher/%.o: %.c
	@mkdir -p $(@D)
	@echo CC $< '(launcher)'
	@gcc -I. $(LAUNCHER_CFLAGS) -MMD -MP -c $< -o $@
build/release/cordium-launcher: $(patsubst $(OUT)/%,build/launcher/%,$(LAUNCHER_OBJECTS))
	@mkdir -p $(@D)
	@echo LD $@
	@gcc -static-pie -Wl,-z,relro,-z,now $^ -o $@
-include $(shell find build/launcher -name '*.d' 2>/dev/null)

PROGRAMS += $(OUT)/cordium-executor build/release/cordium-launcher

# A client for people and tests.
$(OUT)/executor_probe: $(OUT)/tests/tools/executor_probe.o $(OUT)/libexecutor_client.a $(OUT)/libproc.a $(OUT)/libbase.a
	@$(CC) $(LDFLAGS) $^ -o $@

# The live tests start the daemon of their own build variant.
$(OUT)/tests/unit/executor/world.o: CPPFLAGS += -DEXECUTOR_PROGRAM='"$(OUT)/cordium-executor"' -DATTACK_PROGRAM='"$(OUT)/tests/tools/attack"'
$(OUT)/tests/unit/executor/test_sandbox.o: CPPFLAGS += -DEXECUTOR_PROGRAM='"$(OUT)/cordium-executor"'
$(OUT)/tests/unit/executor/test_doctor.o: CPPFLAGS += -DEXECUTOR_PROGRAM='"$(OUT)/cordium-executor"'
unit-executor: $(OUT)/cordium-executor build/release/cordium-launcher $(OUT)/tests/tools/attack

# What runs inside a sandbox to break out; static, for images without a libc.
$(OUT)/tests/tools/attack: tests/tools/attack.c
	@mkdir -p $(@D)
	@gcc -std=gnu17 -D_GNU_SOURCE -O1 -Wall -Wextra -static $< -o $@

# Executor and launcher with a layer missing, for the test of the self-test: of the same objects, with some
# calls turned to tests/tools/*_without.c. The programs above have nothing to turn a layer off by.
wrap = $(foreach f,$(1),-Wl,--wrap=$(f))
$(OUT)/tests/tools/executor_without: $(OUT)/tests/tools/executor_without.o $(OUT)/executor/main.o $(OUT)/libexecutor.a $(OUT)/libexecutor_client.a $(OUT)/libproc.a $(OUT)/libbase.a
	@$(CC) $(LDFLAGS) $(call wrap,open mounts_clone_idmapped storage_open fd_write_file_u64) $^ $(EXECUTOR_LIBS) -o $@
build/release/tests/tools/launcher_without: build/launcher/tests/tools/launcher_without.o $(patsubst $(OUT)/%,build/launcher/%,$(LAUNCHER_OBJECTS))
	@mkdir -p $(@D)
	@gcc -static-pie -Wl,-z,relro,-z,now $(call wrap,syscall prctl clone setns unshare sethostname setrlimit fd_open_beneath mounts_clone) $^ -o $@
$(OUT)/tests/unit/executor/test_self_test.o: CPPFLAGS += -DEXECUTOR_WITHOUT='"$(OUT)/tests/tools/executor_without"' \
	-DLAUNCHER_WITHOUT='"build/release/tests/tools/launcher_without"'
unit-executor: $(OUT)/tests/tools/executor_without build/release/tests/tools/launcher_without

FUZZ_EXECUTOR_OBJECTS := $(patsubst %,$(OUT)/%.o,executor/sandbox_spec executor/config executor/proc/fd \
	executor/client/encode executor/ipc/message \
	$(patsubst executor/%.c,executor/%,$(wildcard executor/steps/network*.c)))
$(OUT)/tests/fuzz/fuzz_executor_messages: $(OUT)/tests/fuzz/fuzz_executor_messages.o $(FUZZ_EXECUTOR_OBJECTS) $(OUT)/libbase.a
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(EXECUTOR_LIBS) -o $@
$(OUT)/tests/fuzz/fuzz_network_notes: $(OUT)/tests/fuzz/fuzz_network_notes.o $(OUT)/executor/steps/network_denials.o \
	$(OUT)/executor/proc/fd.o $(OUT)/libbase.a
	@$(CC) $(LDFLAGS) -fsanitize=fuzzer $^ -o $@
