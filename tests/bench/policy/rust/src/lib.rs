//! What the two Rust peers share. A peer reads "RULE MODE COUNT" lines and answers
//! "RESULT WALL_NS CPU_NS" (for the whole count).
use std::io::BufRead;
use std::time::Instant;

pub use serde_json::Value as Json;

/// The request as a service holds it: one flat record.
pub struct Request {
    pub user_name: String,
    pub user_uid: String,
    pub user_created_at: String,
    pub user_type: String,
    pub groups: Vec<String>,
    pub session_name: String,
    pub session_uid: String,
    pub session_created_at: String,
    pub session_state: String,
    pub session_type: String,
    pub is_browser: bool,
    pub workspace: String,
    pub workspace_uid: String,
    pub space: String,
    pub space_uid: String,
    pub template: String,
    pub template_uid: String,
    pub service: String,
    pub namespace: String,
    pub ip: String,
    pub grpc_service: String,
    pub grpc_full: String,
    pub grpc_package: String,
    pub grpc_method: String,
    pub http_method: String,
    pub path: String,
    pub host: String,
    pub scheme: String,
    pub content_type: String,
    pub user_agent: String,
    pub te: String,
    pub display_name: String,
    pub megabytes: i64,
    pub millicores: i64,
    pub storage: i64,
}

impl Request {
    pub fn from_json(ctx: &Json) -> Request {
        let text = |path: &str| ctx.pointer(path).unwrap().as_str().unwrap().to_string();
        let number = |path: &str| ctx.pointer(path).unwrap().as_i64().unwrap();
        let groups = ctx.pointer("/user/spec/groups").unwrap().as_array().unwrap();
        Request {
            user_name: text("/user/metadata/name"),
            user_uid: text("/user/metadata/uid"),
            user_created_at: text("/user/metadata/createdAt"),
            user_type: text("/user/spec/type"),
            groups: groups.iter().map(|g| g.as_str().unwrap().to_string()).collect(),
            session_name: text("/session/metadata/name"),
            session_uid: text("/session/metadata/uid"),
            session_created_at: text("/session/metadata/createdAt"),
            session_state: text("/session/spec/state"),
            session_type: text("/session/status/type"),
            is_browser: ctx.pointer("/session/status/isBrowser").unwrap().as_bool().unwrap(),
            workspace: text("/session/status/ext/cordium/workspaceRef/name"),
            workspace_uid: text("/session/status/ext/cordium/workspaceRef/uid"),
            space: text("/space/metadata/name"),
            space_uid: text("/space/metadata/uid"),
            template: text("/template/metadata/name"),
            template_uid: text("/template/metadata/uid"),
            service: text("/service/metadata/name"),
            namespace: text("/namespace/metadata/name"),
            ip: text("/request/ip"),
            grpc_service: text("/request/grpc/service"),
            grpc_full: text("/request/grpc/serviceFullName"),
            grpc_package: text("/request/grpc/package"),
            grpc_method: text("/request/grpc/method"),
            http_method: text("/request/http/method"),
            path: text("/request/http/path"),
            host: text("/request/http/host"),
            scheme: text("/request/http/scheme"),
            content_type: text("/request/http/headers/content-type"),
            user_agent: text("/request/http/headers/user-agent"),
            te: text("/request/http/headers/te"),
            display_name: text("/request/body/metadata/displayName"),
            megabytes: number("/request/body/spec/limit/memory/megabytes"),
            millicores: number("/request/body/spec/limit/cpu/millicores"),
            storage: number("/request/body/spec/limit/storage/megabytes"),
        }
    }
}

pub fn cpu_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

pub fn read_json(path: &str) -> Json {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Answers the lines of standard input.
pub fn serve(mut run: impl FnMut(usize, bool, usize) -> bool) {
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let (cpu, wall) = (cpu_ns(), Instant::now());
        let result = run(words[0].parse().unwrap(), words[1] == "bare", words[2].parse().unwrap());
        println!("{} {} {}", result, wall.elapsed().as_nanos(), cpu_ns() - cpu);
    }
}
