# executor/: the privileged daemon, its two static helpers, and the client that the gateway links.

PROC_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard executor/proc/*.c))
EXECUTOR_CLIENT_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(wildcard executor/client/*.c executor/ipc/*.c))
EXECUTOR_OBJECTS := $(patsubst %.c,$(OUT)/%.o,$(filter-out executor/main.c,$(wildcard executor/*.c executor/steps/*.c)))
EXECUTOR_LIBS := -lseccomp -lcap -lmnl -lnftables

$(OUT)/libproc.a: $(PROC_OBJECTS)
$(OUT)/libexecutor_client.a: $(EXECUTOR_CLIENT_OBJECTS)
$(OUT)/libexecutor.a: $(EXECUTOR_OBJECTS)

$(OUT)/cordium-executor: $(OUT)/executor/main.o $(OUT)/libexecutor.a $(OUT)/libexecutor_client.a $(OUT)/libproc.a $(OUT)/libbase.a
	$(CC) $(LDFLAGS) $^ $(EXECUTOR_LIBS) -o $@

PROGRAMS += $(OUT)/cordium-executor

include executor/image/module.mk
