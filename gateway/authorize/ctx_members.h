#ifndef AUTHORIZE_CTX_MEMBERS_H
#define AUTHORIZE_CTX_MEMBERS_H

/* The members of `ctx`, once: activation.c makes the values from these lists, ctx_schema.c tells
 * the linter what they are. In turn: name, the function that makes it, what it is, of what, and
 * whether each request has it.
 *
 *   OBJECT table   TEXT   BOOL   INT   TEXTS (a list)   TEXT_MAP
 *   MESSAGE descriptor (stored resources)   MESSAGES descriptor (a list)   PART descriptor (no
 *   resource)   BODY (any request message)   METHOD_NAME (of the API: "GetSpace") */

#define CTX_ROOT(M)                                                                                \
    M("user", make_user, MESSAGE, &core__user__descriptor, ALWAYS)                                 \
    M("session", make_session, MESSAGE, &core__session__descriptor, ALWAYS)                        \
    M("groups", make_groups, MESSAGES, &core__group__descriptor, MAYBE)                            \
    M("service", make_service, OBJECT, &ctx_service, ALWAYS)                                       \
    M("namespace", make_namespace, OBJECT, &ctx_namespace, ALWAYS)                                 \
    M("request", make_request, OBJECT, &ctx_request, ALWAYS)                                       \
    M("space", make_space, MESSAGE, &cordium__space__descriptor, MAYBE)                            \
    M("template", make_template, MESSAGE, &cordium__template__descriptor, MAYBE)                   \
    M("workspace", make_workspace, MESSAGE, &cordium__workspace__descriptor, MAYBE)                \
    M("run", make_run, OBJECT, &ctx_run, MAYBE)

#define CTX_SERVICE(M)                                                                             \
    M("apiVersion", make_api_version, TEXT, NULL, ALWAYS)                                          \
    M("kind", make_kind_service, TEXT, NULL, ALWAYS)                                               \
    M("metadata", make_service_metadata, OBJECT, &ctx_service_metadata, ALWAYS)                    \
    M("spec", make_service_spec, OBJECT, &ctx_service_spec, ALWAYS)

#define CTX_SERVICE_METADATA(M)                                                                    \
    M("name", make_service_name, TEXT, NULL, ALWAYS)                                               \
    M("isSystem", make_true, BOOL, NULL, ALWAYS)

#define CTX_SERVICE_SPEC(M)                                                                        \
    M("mode", make_mode, TEXT, NULL, ALWAYS)                                                       \
    M("isPublic", make_true, BOOL, NULL, ALWAYS)                                                   \
    M("isTLS", make_true, BOOL, NULL, ALWAYS)

#define CTX_NAMESPACE(M)                                                                           \
    M("apiVersion", make_api_version, TEXT, NULL, ALWAYS)                                          \
    M("kind", make_kind_namespace, TEXT, NULL, ALWAYS)                                             \
    M("metadata", make_namespace_metadata, OBJECT, &ctx_namespace_metadata, ALWAYS)

#define CTX_NAMESPACE_METADATA(M)                                                                  \
    M("name", make_namespace_name, TEXT, NULL, ALWAYS)                                             \
    M("isSystem", make_true, BOOL, NULL, ALWAYS)

#define CTX_REQUEST(M)                                                                             \
    M("ip", make_ip, TEXT, NULL, MAYBE)                                                            \
    M("grpc", make_grpc, OBJECT, &ctx_grpc, ALWAYS)                                                \
    M("http", make_http, OBJECT, &ctx_http, ALWAYS)                                                \
    M("body", make_body, BODY, NULL, ALWAYS)

#define CTX_GRPC(M)                                                                                \
    M("service", make_grpc_service, TEXT, NULL, ALWAYS)                                            \
    M("serviceFullName", make_grpc_service_full, TEXT, NULL, ALWAYS)                               \
    M("package", make_grpc_package, TEXT, NULL, ALWAYS)                                            \
    M("method", make_grpc_method, METHOD_NAME, NULL, ALWAYS)                                       \
    M("http", make_http, OBJECT, &ctx_http, ALWAYS)

#define CTX_HTTP(M)                                                                                \
    M("method", make_http_method, TEXT, NULL, ALWAYS)                                              \
    M("path", make_http_path, TEXT, NULL, ALWAYS)                                                  \
    M("host", make_http_host, TEXT, NULL, MAYBE)                                                   \
    M("scheme", make_http_scheme, TEXT, NULL, ALWAYS)                                              \
    M("headers", make_headers, TEXT_MAP, NULL, ALWAYS)

#define CTX_RUN(M)                                                                                 \
    M("command", make_command, TEXT, NULL, ALWAYS)                                                 \
    M("sha256", make_run_sha256, TEXT, NULL, ALWAYS)                                               \
    M("size", make_run_size, INT, NULL, ALWAYS)                                                    \
    M("user", make_run_user, TEXT, NULL, ALWAYS)                                                   \
    M("isRoot", make_run_is_root, BOOL, NULL, ALWAYS)                                              \
    M("env", make_run_env, TEXTS, NULL, ALWAYS)                                                    \
    M("workingDir", make_run_working_dir, TEXT, NULL, ALWAYS)                                      \
    M("hasStdin", make_run_has_stdin, BOOL, NULL, ALWAYS)                                          \
    M("isTerminal", make_run_is_terminal, BOOL, NULL, ALWAYS)                                      \
    M("limits", make_run_limits, PART, &cordium__workspace__spec__limit__descriptor, ALWAYS)

#endif
