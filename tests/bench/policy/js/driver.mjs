// One peer of the policy benchmark: `node driver.mjs cel-js|bufbuild RULES CTX`.
// Reads "RULE MODE COUNT" lines, answers "RESULT WALL_NS CPU_NS" (for the whole count).
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [engine, rulesPath, ctxPath] = process.argv.slice(2);
const rules = JSON.parse(readFileSync(rulesPath, "utf8"));
const ctx = JSON.parse(readFileSync(ctxPath, "utf8"));

async function compileAll() {
  if (engine === "cel-js") {
    const { Environment } = await import("@marcbachmann/cel-js");
    const env = new Environment({ unlistedVariablesAreDyn: true });
    return rules.map((r) => env.parse(r.cel));
  }
  const { celEnv, parse, plan } = await import("@bufbuild/cel");
  const env = celEnv();
  return rules.map((r) => plan(env, parse(r.cel)));
}

// The request as a service holds it: one flat record.
function flatRequest(c) {
  const cordium = c.session.status.ext.cordium;
  return {
    userName: c.user.metadata.name, userUid: c.user.metadata.uid, userCreatedAt: c.user.metadata.createdAt,
    userType: c.user.spec.type, groups: c.user.spec.groups,
    sessionName: c.session.metadata.name, sessionUid: c.session.metadata.uid,
    sessionCreatedAt: c.session.metadata.createdAt, sessionState: c.session.spec.state,
    sessionType: c.session.status.type, isBrowser: c.session.status.isBrowser,
    workspace: cordium.workspaceRef.name, workspaceUid: cordium.workspaceRef.uid,
    space: cordium.spaceRef.name, spaceUid: cordium.spaceRef.uid,
    template: cordium.templateRef.name, templateUid: cordium.templateRef.uid,
    serviceName: c.service.metadata.name, namespaceName: c.namespace.metadata.name,
    ip: c.request.ip, grpcService: c.request.grpc.service, grpcFull: c.request.grpc.serviceFullName,
    grpcPackage: c.request.grpc.package, grpcMethod: c.request.grpc.method,
    httpMethod: c.request.http.method, path: c.request.http.path, host: c.request.http.host,
    scheme: c.request.http.scheme, contentType: c.request.http.headers["content-type"],
    userAgent: c.request.http.headers["user-agent"], te: c.request.http.headers.te,
    displayName: c.request.body.metadata.displayName,
    megabytes: c.request.body.spec.limit.memory.megabytes,
    millicores: c.request.body.spec.limit.cpu.millicores,
    storage: c.request.body.spec.limit.storage.megabytes,
  };
}

function makeCtx(r) {
  return {
    user: {
      metadata: { name: r.userName, uid: r.userUid, createdAt: r.userCreatedAt },
      spec: { type: r.userType, groups: r.groups },
    },
    session: {
      metadata: { name: r.sessionName, uid: r.sessionUid, createdAt: r.sessionCreatedAt },
      spec: { state: r.sessionState },
      status: {
        type: r.sessionType,
        isBrowser: r.isBrowser,
        userRef: { name: r.userName, uid: r.userUid },
        ext: {
          cordium: {
            workspaceRef: { name: r.workspace, uid: r.workspaceUid },
            spaceRef: { name: r.space, uid: r.spaceUid },
            templateRef: { name: r.template, uid: r.templateUid },
          },
        },
      },
    },
    service: { metadata: { name: r.serviceName } },
    namespace: { metadata: { name: r.namespaceName } },
    space: { metadata: { name: r.space, uid: r.spaceUid } },
    template: { metadata: { name: r.template, uid: r.templateUid } },
    request: {
      ip: r.ip,
      grpc: {
        service: r.grpcService,
        serviceFullName: r.grpcFull,
        package: r.grpcPackage,
        method: r.grpcMethod,
      },
      http: {
        method: r.httpMethod,
        path: r.path,
        host: r.host,
        scheme: r.scheme,
        headers: { "content-type": r.contentType, "user-agent": r.userAgent, te: r.te },
      },
      body: {
        metadata: { displayName: r.displayName },
        spec: {
          limit: {
            memory: { megabytes: r.megabytes },
            cpu: { millicores: r.millicores },
            storage: { megabytes: r.storage },
          },
        },
      },
    },
  };
}

const programs = await compileAll();
const flat = flatRequest(ctx);
if (JSON.stringify(makeCtx(flat)) !== JSON.stringify(ctx)) {
  throw new Error("makeCtx() does not give the ctx of the file");
}
const prepared = { ctx };

function run(rule, mode, count) {
  const program = programs[rule];
  let result;
  if (mode === "bare") {
    for (let i = 0; i < count; i++) result = program(prepared);
  } else {
    for (let i = 0; i < count; i++) result = program({ ctx: makeCtx(flat) });
  }
  return result;
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [rule, mode, count] = line.split(" ");
  const cpu = process.cpuUsage();
  const wall = process.hrtime.bigint();
  const result = run(Number(rule), mode, Number(count));
  const wallNs = process.hrtime.bigint() - wall;
  const used = process.cpuUsage(cpu);
  console.log(`${result} ${wallNs} ${(used.user + used.system) * 1000}`);
}
