//! The crate `cel`: `cel_rust RULES CTX`.
use std::collections::HashMap;
use std::sync::Arc;

use cel::objects::{Key, Map};
use cel::{Context, Env, Value};
use policy_bench_rust::{read_json, serve, Request};

fn object<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    let map: HashMap<Key, Value> = entries.into_iter().map(|(k, v)| (Key::from(k), v)).collect();
    Value::Map(Map { map: Arc::new(map) })
}

fn text(s: &str) -> Value {
    Value::from(s)
}

fn named(name: &str, uid: &str) -> Value {
    object([("name", text(name)), ("uid", text(uid))])
}

fn number(n: i64) -> Value {
    Value::Float(n as f64)
}

fn make_ctx(r: &Request) -> Value {
    let metadata = |name, uid, created_at| {
        object([("name", text(name)), ("uid", text(uid)), ("createdAt", text(created_at))])
    };
    let groups: Vec<Value> = r.groups.iter().map(|g| text(g)).collect();
    object([
        (
            "user",
            object([
                ("metadata", metadata(&r.user_name, &r.user_uid, &r.user_created_at)),
                ("spec", object([("type", text(&r.user_type)), ("groups", Value::from(groups))])),
            ]),
        ),
        (
            "session",
            object([
                ("metadata", metadata(&r.session_name, &r.session_uid, &r.session_created_at)),
                ("spec", object([("state", text(&r.session_state))])),
                (
                    "status",
                    object([
                        ("type", text(&r.session_type)),
                        ("isBrowser", Value::Bool(r.is_browser)),
                        ("userRef", named(&r.user_name, &r.user_uid)),
                        (
                            "ext",
                            object([(
                                "cordium",
                                object([
                                    ("workspaceRef", named(&r.workspace, &r.workspace_uid)),
                                    ("spaceRef", named(&r.space, &r.space_uid)),
                                    ("templateRef", named(&r.template, &r.template_uid)),
                                ]),
                            )]),
                        ),
                    ]),
                ),
            ]),
        ),
        ("service", object([("metadata", object([("name", text(&r.service))]))])),
        ("namespace", object([("metadata", object([("name", text(&r.namespace))]))])),
        ("space", object([("metadata", named(&r.space, &r.space_uid))])),
        ("template", object([("metadata", named(&r.template, &r.template_uid))])),
        (
            "request",
            object([
                ("ip", text(&r.ip)),
                (
                    "grpc",
                    object([
                        ("service", text(&r.grpc_service)),
                        ("serviceFullName", text(&r.grpc_full)),
                        ("package", text(&r.grpc_package)),
                        ("method", text(&r.grpc_method)),
                    ]),
                ),
                (
                    "http",
                    object([
                        ("method", text(&r.http_method)),
                        ("path", text(&r.path)),
                        ("host", text(&r.host)),
                        ("scheme", text(&r.scheme)),
                        (
                            "headers",
                            object([
                                ("content-type", text(&r.content_type)),
                                ("user-agent", text(&r.user_agent)),
                                ("te", text(&r.te)),
                            ]),
                        ),
                    ]),
                ),
                (
                    "body",
                    object([
                        ("metadata", object([("displayName", text(&r.display_name))])),
                        (
                            "spec",
                            object([(
                                "limit",
                                object([
                                    ("memory", object([("megabytes", number(r.megabytes))])),
                                    ("cpu", object([("millicores", number(r.millicores))])),
                                    ("storage", object([("megabytes", number(r.storage))])),
                                ]),
                            )]),
                        ),
                    ]),
                ),
            ]),
        ),
    ])
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let rules = read_json(&args[1]);
    let request = Request::from_json(&read_json(&args[2]));
    let env = Arc::new(Env::stdlib());
    let programs: Vec<_> = rules
        .as_array()
        .unwrap()
        .iter()
        .map(|r| env.compile(r["cel"].as_str().unwrap()).unwrap())
        .collect();
    let mut prepared = Context::with_env(env.clone());
    prepared.add_variable_from_value("ctx", make_ctx(&request));
    serve(|rule, is_bare, count| {
        let mut result = Value::Null;
        for _ in 0..count {
            result = if is_bare {
                programs[rule].execute(&prepared).unwrap()
            } else {
                let mut context = Context::with_env(env.clone());
                context.add_variable_from_value("ctx", make_ctx(&request));
                programs[rule].execute(&context).unwrap()
            };
        }
        result == Value::Bool(true)
    });
}
