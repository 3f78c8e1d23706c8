//! The crate `cedar-policy`: `cedar RULES CTX`. Each rule is a policy set of one `permit`; the
//! context has the members of ctx, and there are no entities but the three of the request.
use std::str::FromStr;

use cedar_policy::{
    Authorizer, Context, Decision, Entities, EntityUid, PolicySet, Request as Query,
    RestrictedExpression as Expr,
};
use policy_bench_rust::{read_json, serve, Request};

fn object<const N: usize>(entries: [(&str, Expr); N]) -> Expr {
    Expr::new_record(entries.into_iter().map(|(k, v)| (k.to_string(), v))).unwrap()
}

fn text(s: &str) -> Expr {
    Expr::new_string(s.to_string())
}

fn named(name: &str, uid: &str) -> Expr {
    object([("name", text(name)), ("uid", text(uid))])
}

fn make_ctx(r: &Request) -> Context {
    let metadata = |name, uid, created_at| {
        object([("name", text(name)), ("uid", text(uid)), ("createdAt", text(created_at))])
    };
    let cordium = object([
        ("workspaceRef", named(&r.workspace, &r.workspace_uid)),
        ("spaceRef", named(&r.space, &r.space_uid)),
        ("templateRef", named(&r.template, &r.template_uid)),
    ]);
    let status = object([
        ("type", text(&r.session_type)),
        ("isBrowser", Expr::new_bool(r.is_browser)),
        ("userRef", named(&r.user_name, &r.user_uid)),
        ("ext", object([("cordium", cordium)])),
    ]);
    let session = object([
        ("metadata", metadata(&r.session_name, &r.session_uid, &r.session_created_at)),
        ("spec", object([("state", text(&r.session_state))])),
        ("status", status),
    ]);
    let groups = Expr::new_set(r.groups.iter().map(|g| text(g)));
    let user = object([
        ("metadata", metadata(&r.user_name, &r.user_uid, &r.user_created_at)),
        ("spec", object([("type", text(&r.user_type)), ("groups", groups)])),
    ]);
    let grpc = object([
        ("service", text(&r.grpc_service)),
        ("serviceFullName", text(&r.grpc_full)),
        ("package", text(&r.grpc_package)),
        ("method", text(&r.grpc_method)),
    ]);
    let headers = object([
        ("content-type", text(&r.content_type)),
        ("user-agent", text(&r.user_agent)),
        ("te", text(&r.te)),
    ]);
    let http = object([
        ("method", text(&r.http_method)),
        ("path", text(&r.path)),
        ("host", text(&r.host)),
        ("scheme", text(&r.scheme)),
        ("headers", headers),
    ]);
    let limit = object([
        ("memory", object([("megabytes", Expr::new_long(r.megabytes))])),
        ("cpu", object([("millicores", Expr::new_long(r.millicores))])),
        ("storage", object([("megabytes", Expr::new_long(r.storage))])),
    ]);
    let body = object([
        ("metadata", object([("displayName", text(&r.display_name))])),
        ("spec", object([("limit", limit)])),
    ]);
    let request =
        object([("ip", text(&r.ip)), ("grpc", grpc), ("http", http), ("body", body)]);
    let named_only = |name: &str| object([("metadata", object([("name", text(name))]))]);
    Context::from_pairs([
        ("user".to_string(), user),
        ("session".to_string(), session),
        ("service".to_string(), named_only(&r.service)),
        ("namespace".to_string(), named_only(&r.namespace)),
        ("space".to_string(), object([("metadata", named(&r.space, &r.space_uid))])),
        ("template".to_string(), object([("metadata", named(&r.template, &r.template_uid))])),
        ("request".to_string(), request),
    ])
    .unwrap()
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let rules = read_json(&args[1]);
    let request = Request::from_json(&read_json(&args[2]));
    let policies: Vec<PolicySet> = rules
        .as_array()
        .unwrap()
        .iter()
        .map(|r| PolicySet::from_str(r["cedar"].as_str().unwrap()).unwrap())
        .collect();
    let uid = |s| EntityUid::from_str(s).unwrap();
    let (user, action, api) =
        (uid("User::\"course-backend\""), uid("Action::\"call\""), uid("Api::\"main\""));
    let query = |context| {
        Query::new(user.clone(), action.clone(), api.clone(), context, None).unwrap()
    };
    let prepared = query(make_ctx(&request));
    let entities = Entities::empty();
    let authorizer = Authorizer::new();
    serve(|rule, is_bare, count| {
        let mut result = Decision::Deny;
        for _ in 0..count {
            let response = if is_bare {
                authorizer.is_authorized(&prepared, &policies[rule], &entities)
            } else {
                authorizer.is_authorized(&query(make_ctx(&request)), &policies[rule], &entities)
            };
            result = response.decision();
        }
        result == Decision::Allow
    });
}
