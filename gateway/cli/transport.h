#ifndef CLI_TRANSPORT_H
#define CLI_TRANSPORT_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "gateway/rpc/schema.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* gRPC calls from the command line, over TLS or a unix socket. Blocking: one call at a time, which
 * is all a command does. The one file that knows libcurl. */
struct transport;

struct transport_options {
    const char *domain;      /* the name asked for is octelium-api.<domain> */
    const char *server;      /* "host:port" to connect to; NULL: octelium-api.<domain>:443 */
    const char *unix_socket; /* inside a workspace; then TLS and tokens stay out */
    const char *ca_file;     /* PEM; NULL: the system's */
    bool is_insecure;        /* no verification of the server */
    unsigned timeout_ms;     /* of unary calls; 0 = none */
};

/* Options are borrowed for the transport's life. */
int transport_new(const struct transport_options *options, struct transport **ret,
                  struct error *err);
void transport_free(struct transport *t); /* NULL is fine */

/* A header of every later call, e.g. "x-octelium-auth"; NULL takes it away. Copied. */
int transport_set_token(struct transport *t, const char *header, const char *token,
                        struct error *err);

/* One message there, one back, in the arena. Errors are the server's own status and text, or
 * UNAVAILABLE when there was no answer. */
int transport_unary(struct transport *t, const char *path, const ProtobufCMessage *request,
                    struct arena *arena, ProtobufCMessage **ret, struct error *err);

/* A call with many messages. Callbacks run inside transport_stream(). */
struct transport_stream_handler {
    /* A message came. It dies when the function returns. False ends the call from our side. */
    bool (*on_message)(void *state, const ProtobufCMessage *message);
    /* A trailer or header of the reply; may be NULL. */
    void (*on_header)(void *state, struct str name, struct str value);
    /* Turns bytes read from input_fd into the next message to send; n = 0 at end of file. Returns
     * NULL to send nothing. */
    const ProtobufCMessage *(*on_input)(void *state, const uint8_t *bytes, size_t n);
    void *state;
    int input_fd; /* -1: the first message is all we send */
    /* Where something to read ends the call (CANCELLED): a signalfd. 0: nothing does. */
    int interrupt_fd;
};

/* Returns 0 when the call ended with OK or on_message ended it. */
int transport_stream(struct transport *t, const char *path, const ProtobufCMessage *first,
                     const struct transport_stream_handler *handler, struct error *err);

#endif
