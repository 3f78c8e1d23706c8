"""What a call costs the edge: server CPU per request under h2load, against the floor that it must hold.

usage: edge_bench.py EDGE_ECHO [REQUESTS]

The server is pinned to one core and h2load to another. CPU per request is what counts: requests per
second depend on who else uses the machine.
"""
import os, re, subprocess, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../system'))
from edge_client import *

requests = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
server = Server(sys.argv[1])
os.sched_setaffinity(server.pid, {0})
body = server.dir + '/grpc'
open(body, 'wb').write(envelope(b'twenty-one bytes here'))
json_body = server.dir + '/json'
open(json_body, 'wb').write(b'{"text":"a message"}')


def cpu_seconds():
    return int(open('/proc/%d/schedstat' % server.pid).read().split()[0]) / 1e9


def load(name, floor_us, connections, streams, count, content_type='application/grpc', *options):
    data = body if 'grpc' in content_type else json_body
    command = ['taskset', '-c', '1', 'h2load', '-n', str(count), '-c', str(connections), '-m', str(streams), '-d', data,
               '-H', 'content-type: ' + content_type, '-H', 'te: trailers', *options,
               'https://localhost:%d%sUnary' % (server.port, SERVICE)]
    before = cpu_seconds()
    done = subprocess.run(command, capture_output=True, text=True).stdout
    used_us = (cpu_seconds() - before) * 1e6 / count
    rate = re.search(r'([0-9.]+) req/s', done)
    good = re.search(r'(\d+) succeeded', done)
    is_good = good and int(good.group(1)) == count
    print('%-42s %8.1f us CPU/request  (floor %5.1f)  %8s req/s  %s' % (
        name, used_us, floor_us, rate.group(1) if rate else '?', '' if is_good else 'NOT ALL SUCCEEDED'), flush=True)
    return used_us <= floor_us and is_good


fine = [load('gRPC, TLS, 16 connections', 15, 16, 1, requests),
        load('gRPC, TLS, 64 connections', 15, 64, 1, requests),
        load('gRPC, TLS, 16 connections x 16 calls', 4, 16, 16, requests * 2),
        load('gRPC, TLS, one at a time', 40, 1, 1, requests // 10),
        load('Connect JSON, TLS, 16 connections', 15, 16, 1, requests, 'application/json'),
        load('Connect JSON, HTTP/1.1 + TLS, 16 connections', 15, 16, 1, requests, 'application/json', '--h1')]

flood = server.dir + '/flood'
open(flood, 'wb').write(envelope(b'2000000000 32768'))
before, t = cpu_seconds(), time.time()
subprocess.run(['taskset', '-c', '1', 'curl', '-sS', '--cacert', server.ca, '-H', 'content-type: application/grpc', '--data-binary',
                '@' + flood, '-o', '/dev/null', 'https://localhost:%d%sFlood' % (server.port, SERVICE)], check=True)
used = (cpu_seconds() - before) * 1e6 / 2000
print('%-42s %8.1f us CPU/MB       (floor  1100)  %8.0f MB/s' % ('stream, h2 + TLS', used, 2000 / (time.time() - t)))
fine.append(used <= 1100)

idle_before = server.rss_mb()
idle = [server.connect_tls() for _ in range(500)]
for k in idle:
    k.sendall(PREFACE + frame(SETTINGS, 0, 0))
time.sleep(0.5)
kib = (server.rss_mb() - idle_before) * 1024 / 500
print('%-42s %8.1f KiB             (floor    40)' % ('an idle TLS connection', kib))
fine.append(kib <= 40)
for k in idle:
    k.close()
server.stop()
print('%d passed, %d failed' % (sum(fine), len(fine) - sum(fine)))
sys.exit(0 if all(fine) else 1)
