#include "gateway/telemetry/endpoint.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "policy/base/str.h"

static bool is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

static bool is_path_char(char c)
{
    return is_host_char(c) || c == '/' || c == '~' || c == '%' || c == '+' || c == '@' || c == ':';
}

/* Takes "HOST[:PORT]" off *at; an IPv6 address is in brackets. */
static bool take_authority(const char **at, uint16_t default_port, struct endpoint *e)
{
    const char *p = *at;
    bool is_v6 = *p == '[';
    const char *start = is_v6 ? ++p : p;
    while (is_v6 ? (*p && *p != ']') : is_host_char(*p)) {
        p++;
    }
    size_t len = (size_t)(p - start);
    struct in6_addr v6;
    if (len == 0 || len >= sizeof e->host) {
        return false;
    }
    memcpy(e->host, start, len);
    e->host[len] = '\0';
    if (is_v6 && (*p++ != ']' || inet_pton(AF_INET6, e->host, &v6) != 1)) {
        return false;
    }
    unsigned port = default_port;
    if (*p == ':') {
        port = 0;
        for (p++; *p >= '0' && *p <= '9' && port <= 65535; p++) {
            port = port * 10 + (unsigned)(*p - '0');
        }
    }
    *at = p;
    e->port = (uint16_t)port;
    return port >= 1 && port <= 65535;
}

static bool take_prefix(const char **at, const char *prefix)
{
    size_t n = strlen(prefix);
    if (strncmp(*at, prefix, n) != 0) {
        return false;
    }
    *at += n;
    return true;
}

static bool copy_path(const char *from, struct endpoint *e)
{
    size_t n = strlen(from);
    if (n >= sizeof e->path) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!is_path_char(from[i])) {
            return false;
        }
    }
    memcpy(e->path, from, n + 1);
    return true;
}

int endpoint_parse_otlp(const char *text, struct endpoint *ret, struct error *err)
{
    struct endpoint e = {0};
    const char *at = text;
    bool is_ok = false;
    if (take_prefix(&at, "https://")) {
        e.scheme = ENDPOINT_HTTPS;
        is_ok = true;
    } else if (take_prefix(&at, "http://")) {
        e.scheme = ENDPOINT_HTTP;
        is_ok = true;
    }
    is_ok =
        is_ok && take_authority(&at, 4318, &e) && (*at == '\0' || *at == '/') && copy_path(at, &e);
    if (!is_ok) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "expected http://HOST[:PORT][/PATH] or https://…, without user, query and "
                         "fragment");
    }
    for (size_t n = strlen(e.path); n > 0 && e.path[n - 1] == '/'; n--) {
        e.path[n - 1] = '\0';
    }
    *ret = e;
    return 0;
}

int endpoint_parse_syslog(const char *text, struct endpoint *ret, struct error *err)
{
    struct endpoint e = {0};
    const char *at = text;
    bool is_ok = false;
    if (take_prefix(&at, "udp://")) {
        e.scheme = ENDPOINT_UDP; /* RFC 5426 §3.3 */
        is_ok = take_authority(&at, 514, &e) && *at == '\0';
    } else if (take_prefix(&at, "tcp://")) {
        e.scheme = ENDPOINT_TCP; /* RFC 6587 names none; 601 is syslog-conn's */
        is_ok = take_authority(&at, 601, &e) && *at == '\0';
    } else if (take_prefix(&at, "unix://")) {
        e.scheme = ENDPOINT_UNIX;
        is_ok = *at == '/' && copy_path(at, &e);
    }
    if (!is_ok) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "expected udp://HOST[:PORT], tcp://HOST[:PORT] or unix:///PATH (of less "
                         "than %d bytes)",
                         ENDPOINT_PATH_SIZE);
    }
    *ret = e;
    return 0;
}

static bool is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

int endpoint_parse_listen(const char *text, struct endpoint *ret, struct error *err)
{
    struct endpoint e = {.scheme = ENDPOINT_HTTP};
    const char *at = text;
    if (!take_authority(&at, 0, &e) || *at != '\0' || !is_loopback(e.host)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "expected ADDRESS:PORT with an address of loopback, such as "
                         "127.0.0.1:9464: there is no log-in");
    }
    *ret = e;
    return 0;
}

/* A name is not looked up here: only "localhost" is taken for what it says. */
bool endpoint_is_safe(const struct endpoint *e)
{
    return e->scheme == ENDPOINT_HTTPS || e->scheme == ENDPOINT_UNIX || is_loopback(e->host) ||
           strcmp(e->host, "localhost") == 0;
}
