#ifndef EXECUTOR_CLIENT_ENCODE_H
#define EXECUTOR_CLIENT_ENCODE_H

#include "executor/client/executor_client.h"
#include "policy/base/bytes.h"

/* The layouts of the longer messages: what the client writes and reads. The executor's own reader
 * of requests is sandbox_spec.c, written apart from this on purpose. */

enum { CREATE_FLAG_EPHEMERAL = 1, CREATE_FLAG_ROOT_READ_ONLY = 2, CREATE_FLAG_PROXY_SOCKET = 4 };

int encode_sandbox_spec(struct buf *out, const struct executor_sandbox_spec *spec,
                        struct error *err);
int encode_run_spec(struct buf *out, const struct executor_run_spec *spec, struct error *err);

bool decode_limits(struct bytes *in, struct executor_limits *ret);
/* config_text points into the input. */
bool decode_host_report(struct bytes *in, struct executor_host_report *ret);
bool decode_run_exit(struct bytes *in, struct executor_run_exit *ret);
bool decode_network_denied(struct bytes *in, struct executor_network_denied *ret);
bool decode_stats(struct bytes *in, struct executor_stats *ret);

#endif
