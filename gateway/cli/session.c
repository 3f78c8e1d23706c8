#include "gateway/cli/session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/auth.pb-c.h"
#include "gateway/cli/local_file.h"
#include "gateway/rpc/codec.h"
#include "gateway/text/yaml_reader.h"
#include "policy/base/bytes.h"

#define AUTH_SERVICE "/octelium.api.main.auth.v1.MainService/"
#define SESSION_FILE "cordium-session.yaml"

enum { REFRESH_BEFORE_SECONDS = 30 };

/* Tells credentials apart (FNV-1a, 64 bits), so that a session kept for one is not used for
 * another. Of no help in guessing 256 random bits. */
static uint64_t fingerprint(const char *token)
{
    uint64_t h = 0xcbf29ce484222325U;
    for (const char *p = token ? token : ""; *p; p++) {
        h = (h ^ (uint8_t)*p) * 0x100000001b3U;
    }
    return h;
}

/* What is kept between two commands. */
struct kept {
    const char *domain;
    const char *access;
    const char *refresh;
    int64_t access_until;
    int64_t refresh_until;
};

static int64_t member_number(const struct tree_node *tree, const char *key)
{
    const struct tree_node *m = tree_member(tree, key);
    return m && m->text.ptr ? strtoll(m->text.ptr, NULL, 10) : 0;
}

static const char *member_text(const struct tree_node *tree, const char *key)
{
    const struct tree_node *m = tree_member(tree, key);
    return m && m->text.ptr ? m->text.ptr : "";
}

/* A file that cannot be read or belongs to another server is as good as none: we log in again. */
static struct kept load(const struct settings *s, struct arena *arena)
{
    struct kept none = {.access = "", .refresh = ""};
    const char *path = s->home ? arena_printf(arena, "%s/" SESSION_FILE, s->home) : NULL;
    struct str text;
    const struct tree_node *tree = NULL;
    struct error ignored;
    if (!path || access(path, R_OK) == -1 || local_file_read(path, arena, &text, &ignored) < 0 ||
        yaml_read(text, arena, &tree, &ignored) < 0 ||
        strcmp(member_text(tree, "domain"), s->domain) != 0 ||
        strcmp(member_text(tree, "server"), s->server ? s->server : "") != 0 ||
        (s->auth_token &&
         strtoull(member_text(tree, "credential"), NULL, 16) != fingerprint(s->auth_token))) {
        return none;
    }
    return (struct kept){
        .access = member_text(tree, "accessToken"),
        .refresh = member_text(tree, "refreshToken"),
        .access_until = member_number(tree, "accessTokenExpiresAt"),
        .refresh_until = member_number(tree, "refreshTokenExpiresAt"),
    };
}

static int keep(const struct settings *s, const Auth__SessionToken *token, struct arena *arena,
                struct error *err)
{
    if (!s->home) {
        return 0;
    }
    int64_t now = (int64_t)time(NULL);
    struct buf b;
    buf_init(&b, 65536);
    buf_printf(&b,
               "domain: \"%s\"\nserver: \"%s\"\naccessToken: \"%s\"\nrefreshToken: \"%s\"\n"
               "accessTokenExpiresAt: %" PRId64 "\nrefreshTokenExpiresAt: %" PRId64
               "\ncredential: \"%" PRIx64 "\"\n",
               s->domain, s->server ? s->server : "", token->access_token, token->refresh_token,
               now + token->expires_in, now + token->refresh_token_expires_in,
               fingerprint(s->auth_token));
    int status = local_file_write_private(s->home, SESSION_FILE, buf_str(&b), arena, err);
    buf_free(&b);
    return status;
}

static int use(struct transport *t, const struct settings *s, const ProtobufCMessage *reply,
               struct arena *arena, struct error *err)
{
    const Auth__SessionToken *token = (const Auth__SessionToken *)reply;
    if (keep(s, token, arena, err) < 0) {
        return -err->status;
    }
    return transport_set_token(t, "x-octelium-auth", token->access_token, err);
}

static int refresh(struct transport *t, const struct settings *s, const struct kept *kept,
                   struct arena *arena, struct error *err)
{
    ProtobufCMessage *request =
        codec_new(&auth__authenticate_with_refresh_token_request__descriptor, arena);
    ProtobufCMessage *reply = NULL;
    if (!request) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    int status = transport_set_token(t, "x-octelium-refresh-token", kept->refresh, err);
    if (status == 0) {
        status = transport_unary(t, AUTH_SERVICE "AuthenticateWithRefreshToken", request, arena,
                                 &reply, err);
    }
    (void)transport_set_token(t, NULL, NULL, NULL);
    return status < 0 ? status : use(t, s, reply, arena, err);
}

static int log_in(struct transport *t, const struct settings *s, struct arena *arena,
                  struct error *err)
{
    Auth__AuthenticateWithAuthenticationTokenRequest *request =
        CODEC_NEW(arena, Auth__AuthenticateWithAuthenticationTokenRequest,
                  auth__authenticate_with_authentication_token_request);
    ProtobufCMessage *reply = NULL;
    if (!request) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    request->authentication_token = arena_strdup(arena, s->auth_token);
    int status = transport_unary(t, AUTH_SERVICE "AuthenticateWithAuthenticationToken",
                                 &request->base, arena, &reply, err);
    return status < 0 ? error_wrap(err, "log-in") : use(t, s, reply, arena, err);
}

int session_ensure(struct transport *t, const struct settings *s, struct arena *arena,
                   struct error *err)
{
    if (s->unix_socket) {
        return 0; /* the socket is the identity */
    }
    if (s->access_token) {
        return transport_set_token(t, "x-octelium-auth", s->access_token, err);
    }
    struct kept kept = load(s, arena);
    int64_t now = (int64_t)time(NULL);
    if (kept.access[0] && kept.access_until - REFRESH_BEFORE_SECONDS > now) {
        return transport_set_token(t, "x-octelium-auth", kept.access, err);
    }
    if (kept.refresh[0] && kept.refresh_until > now) {
        int status = refresh(t, s, &kept, arena, err);
        /* ALREADY_EXISTS: refreshed a moment ago elsewhere; what we have still works. */
        if (status == -STATUS_ALREADY_EXISTS && kept.access_until > now) {
            return transport_set_token(t, "x-octelium-auth", kept.access, err);
        }
        if (status != -STATUS_UNAUTHENTICATED) {
            return status;
        }
    }
    if (s->auth_token) {
        return log_in(t, s, arena, err);
    }
    return error_set(err, STATUS_UNAUTHENTICATED,
                     "not logged in: set OCTELIUM_AUTH_TOKEN to an authentication token, or "
                     "OCTELIUM_ACCESS_TOKEN to an access token");
}

int session_logout(struct transport *t, const struct settings *s, struct arena *arena,
                   struct error *err)
{
    struct kept kept = load(s, arena);
    if (!kept.refresh[0]) {
        return 0;
    }
    ProtobufCMessage *request = codec_new(&auth__logout_request__descriptor, arena);
    ProtobufCMessage *reply = NULL;
    if (!request) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    int status = transport_set_token(t, "x-octelium-refresh-token", kept.refresh, err);
    if (status == 0) {
        status = transport_unary(t, AUTH_SERVICE "Logout", request, arena, &reply, err);
    }
    if (status < 0 && status != -STATUS_UNAUTHENTICATED) {
        return status;
    }
    return local_file_write_private(s->home, SESSION_FILE, STR(""), arena, err);
}
