#ifndef GATEWAY_TEXT_JSON_SINK_H
#define GATEWAY_TEXT_JSON_SINK_H

#include "gateway/text/sink.h"
#include "policy/base/json_out.h"

/* The base library's JSON writer as a sink; the writer must outlive it. */
struct sink json_sink(struct json_out *j);

#endif
