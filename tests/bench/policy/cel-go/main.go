// One peer of the policy benchmark: `cel-go RULES CTX [octelium]`.
// Reads "RULE MODE COUNT" lines, answers "RESULT WALL_NS CPU_NS" (for the whole count).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"syscall"
	"time"

	"cel.dev/cel-go/cel"
)

type rule struct {
	Name string `json:"name"`
	Cel  string `json:"cel"`
}

// The request as a service holds it: one flat record.
type request struct {
	userName, userUID, userCreatedAt, userType              string
	groups                                                  []string
	sessionName, sessionUID, sessionCreatedAt, sessionState string
	sessionType                                             string
	isBrowser                                               bool
	workspace, workspaceUID, space, spaceUID                string
	template, templateUID, serviceName, namespaceName       string
	ip, grpcService, grpcFull, grpcPackage, grpcMethod      string
	httpMethod, path, host, scheme                          string
	contentType, userAgent, te, displayName                 string
	megabytes, millicores, storage                          float64
}

type object = map[string]any

func must[T any](v T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "cel-go:", err)
		os.Exit(1)
	}
	return v
}

func at(v any, path ...string) any {
	for _, name := range path {
		v = v.(object)[name]
	}
	return v
}

func text(v any, path ...string) string { return at(v, path...).(string) }

func flatten(c any) *request {
	r := &request{
		userName: text(c, "user", "metadata", "name"), userUID: text(c, "user", "metadata", "uid"),
		userCreatedAt: text(c, "user", "metadata", "createdAt"), userType: text(c, "user", "spec", "type"),
		sessionName: text(c, "session", "metadata", "name"), sessionUID: text(c, "session", "metadata", "uid"),
		sessionCreatedAt: text(c, "session", "metadata", "createdAt"),
		sessionState:     text(c, "session", "spec", "state"), sessionType: text(c, "session", "status", "type"),
		isBrowser:    at(c, "session", "status", "isBrowser").(bool),
		workspace:    text(c, "session", "status", "ext", "cordium", "workspaceRef", "name"),
		workspaceUID: text(c, "session", "status", "ext", "cordium", "workspaceRef", "uid"),
		space:        text(c, "space", "metadata", "name"), spaceUID: text(c, "space", "metadata", "uid"),
		template: text(c, "template", "metadata", "name"), templateUID: text(c, "template", "metadata", "uid"),
		serviceName: text(c, "service", "metadata", "name"), namespaceName: text(c, "namespace", "metadata", "name"),
		ip: text(c, "request", "ip"), grpcService: text(c, "request", "grpc", "service"),
		grpcFull: text(c, "request", "grpc", "serviceFullName"), grpcPackage: text(c, "request", "grpc", "package"),
		grpcMethod: text(c, "request", "grpc", "method"), httpMethod: text(c, "request", "http", "method"),
		path: text(c, "request", "http", "path"), host: text(c, "request", "http", "host"),
		scheme:      text(c, "request", "http", "scheme"),
		contentType: text(c, "request", "http", "headers", "content-type"),
		userAgent:   text(c, "request", "http", "headers", "user-agent"), te: text(c, "request", "http", "headers", "te"),
		displayName: text(c, "request", "body", "metadata", "displayName"),
		megabytes:   at(c, "request", "body", "spec", "limit", "memory", "megabytes").(float64),
		millicores:  at(c, "request", "body", "spec", "limit", "cpu", "millicores").(float64),
		storage:     at(c, "request", "body", "spec", "limit", "storage", "megabytes").(float64),
	}
	for _, g := range at(c, "user", "spec", "groups").([]any) {
		r.groups = append(r.groups, g.(string))
	}
	return r
}

func makeCtx(r *request) object {
	return object{
		"user": object{
			"metadata": object{"name": r.userName, "uid": r.userUID, "createdAt": r.userCreatedAt},
			"spec":     object{"type": r.userType, "groups": r.groups},
		},
		"session": object{
			"metadata": object{"name": r.sessionName, "uid": r.sessionUID, "createdAt": r.sessionCreatedAt},
			"spec":     object{"state": r.sessionState},
			"status": object{
				"type":      r.sessionType,
				"isBrowser": r.isBrowser,
				"userRef":   object{"name": r.userName, "uid": r.userUID},
				"ext": object{"cordium": object{
					"workspaceRef": object{"name": r.workspace, "uid": r.workspaceUID},
					"spaceRef":     object{"name": r.space, "uid": r.spaceUID},
					"templateRef":  object{"name": r.template, "uid": r.templateUID},
				}},
			},
		},
		"service":   object{"metadata": object{"name": r.serviceName}},
		"namespace": object{"metadata": object{"name": r.namespaceName}},
		"space":     object{"metadata": object{"name": r.space, "uid": r.spaceUID}},
		"template":  object{"metadata": object{"name": r.template, "uid": r.templateUID}},
		"request": object{
			"ip": r.ip,
			"grpc": object{
				"service": r.grpcService, "serviceFullName": r.grpcFull,
				"package": r.grpcPackage, "method": r.grpcMethod,
			},
			"http": object{
				"method": r.httpMethod, "path": r.path, "host": r.host, "scheme": r.scheme,
				"headers": object{"content-type": r.contentType, "user-agent": r.userAgent, "te": r.te},
			},
			"body": object{
				"metadata": object{"displayName": r.displayName},
				"spec": object{"limit": object{
					"memory":  object{"megabytes": r.megabytes},
					"cpu":     object{"millicores": r.millicores},
					"storage": object{"megabytes": r.storage},
				}},
			},
		},
	}
}

func cpuNs() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// With the limits that Octelium sets, or without any.
func compile(env *cel.Env, expression string, limited bool) cel.Program {
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		must(0, issues.Err())
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if limited {
		options = append(options, cel.CostLimit(1000000), cel.InterruptCheckFrequency(1))
	}
	return must(env.Program(ast, options...))
}

func main() {
	var rules []rule
	var ctx any
	limited := len(os.Args) > 3
	must(0, json.Unmarshal(must(os.ReadFile(os.Args[1])), &rules))
	must(0, json.Unmarshal(must(os.ReadFile(os.Args[2])), &ctx))
	flat := flatten(ctx)
	var again any
	must(0, json.Unmarshal(must(json.Marshal(makeCtx(flat))), &again))
	if !reflect.DeepEqual(ctx, again) {
		fmt.Fprintln(os.Stderr, "cel-go: makeCtx() does not give the ctx of the file")
		os.Exit(1)
	}
	env := must(cel.NewEnv(cel.Variable("ctx", cel.DynType)))
	var programs []cel.Program
	for _, r := range rules {
		programs = append(programs, compile(env, r.Cel, limited))
	}
	prepared := object{"ctx": ctx}
	background := context.Background()
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var index, count int
		var mode string
		must(fmt.Sscan(in.Text(), &index, &mode, &count))
		program := programs[index]
		var result any
		cpu, wall := cpuNs(), time.Now()
		for i := 0; i < count; i++ {
			vars := prepared
			if mode != "bare" {
				vars = object{"ctx": makeCtx(flat)}
			}
			if limited {
				v, _, err := program.ContextEval(background, vars)
				result = must(v, err).Value()
			} else {
				v, _, err := program.Eval(vars)
				result = must(v, err).Value()
			}
		}
		fmt.Println(result, time.Since(wall).Nanoseconds(), cpuNs()-cpu)
	}
}
