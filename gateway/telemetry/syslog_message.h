#ifndef TELEMETRY_SYSLOG_MESSAGE_H
#define TELEMETRY_SYSLOG_MESSAGE_H

#include <stdbool.h>

#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* One line of the audit log as a message of RFC 5424:
 *
 *     <PRI>1 TIME HOST cordium-gateway PID KIND [cordium@32473 sequence="7" decision="ALLOWED" …]
 * JSON
 *
 * PRI is the facility with severity informational, warning when the line says DENIED, error for a
 * gap. 32473 is the enterprise number that RFC 5612 keeps for examples: the project has none of its
 * own, and a name without a number would be IANA's. */

enum syslog_framing {
    SYSLOG_DATAGRAM, /* the message is the datagram: RFC 5426, /dev/log */
    SYSLOG_COUNTED,  /* "LENGTH SP MESSAGE": octet counting of RFC 6587 §3.4.1 */
};

struct syslog_source {
    unsigned facility; /* 0 to 23 */
    const char *host;
    const char *pid;
};

/* Appends the message; pure, may run in any thread. The line is without its newline. A full buffer
 * shows in out->failed. */
void syslog_message_write(const struct syslog_source *source, enum syslog_framing framing,
                          struct str line, struct buf *out);

/* A parameter's value, RFC 5424 §6.3.3: '"', '\' and ']' are escaped; control characters, which it
 * forbids to nobody and few receivers like, become spaces. */
void syslog_escape_value(struct str value, struct buf *out);

#endif
