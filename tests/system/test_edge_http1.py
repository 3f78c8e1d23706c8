"""HTTP/1.1, Connect and curl against the edge's echo server.

usage: test_edge_http1.py EDGE_ECHO
"""
import gzip, json, os, socket, struct, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from edge_client import *

check = Checks()
server = Server(sys.argv[1], 'idle', 1500, 'handshake', 1000, 'head', 1000)


def talk(data, seconds=0.6, until=None, half_close=False):
    """Sends, and reads until the server closes or the time is over."""
    k = server.connect_unix()
    k.settimeout(seconds)
    got = b''
    try:
        k.sendall(data)
        if half_close:
            k.shutdown(socket.SHUT_WR)
        while until is None or got.count(until) == 0:
            piece = k.recv(65536)
            if not piece:
                break
            got += piece
    except OSError:
        pass
    k.close()
    return got


POST = b'POST /echo.v1.Echo/Unary HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n'
ONE = POST + b'content-length: 12\r\n\r\n{"text":"a"}'
TWO = POST + b'content-length: 12\r\n\r\n{"text":"b"}'

# ---- well-formed ----
check('two pipelined requests', talk(ONE + TWO).count(b'200 OK') == 2)
got = talk(ONE * 50)
check('fifty pipelined requests, in order', got.count(b'200 OK') == 50)
check('chunked body', b'{"text":"a"}' in talk(
    POST + b'transfer-encoding: chunked\r\n\r\n6\r\n{"text\r\n6;x=y\r\n":"a"}\r\n0\r\nt: 1\r\n\r\n', until=b'"a"}'))
k = server.connect_unix()
for b in ONE:
    k.sendall(bytes([b]))
check('byte by byte', b'200 OK' in k.recv(999))
k.close()
check('a blank line before the request', b'200 OK' in talk(b'\r\n' + ONE, until=b'"a"}'))
check('HTTP/1.0 is answered and closed', talk(ONE.replace(b'HTTP/1.1', b'HTTP/1.0')).count(b'connection: close') == 1)
check('connection: close', talk(ONE.replace(b'host: x', b'host: x\r\nConnection: foo, Close') + TWO).count(b'200 OK') == 1)
got = talk(POST + b'content-length: 12\r\nexpect: 100-continue\r\n\r\n', 0.3)
check('expect: 100-continue', got == b'HTTP/1.1 100 Continue\r\n\r\n', got)
got = talk(POST.replace(b'json', b'nonsense') + b'content-length: 12\r\nexpect: 100-continue\r\n\r\n', 0.3)
check('no 100 before a refusal', got.startswith(b'HTTP/1.1 415'), got)
got = talk(POST + b'content-length: 0\r\n\r\n', 0.3)
check('no body: an empty message', b'200 OK' in got and b'content-length: 0' in got, got)
big = b'x' * (7 << 20)
got = talk(POST + b'content-length: %d\r\nconnection: close\r\n\r\n' % len(big) + big, 3)
check('7 MiB there and back', got.endswith(big), len(got))
got = talk(POST + b'content-length: 9000000\r\n\r\n' + bytes(9000000), 3, until=b'resource_exhausted')
check('9 MB are too large', b' 429 ' in got, got[:60])
got = talk(b'GET /later HTTP/1.1\r\nhost: x\r\n\r\n', until=b'later')
check('an answer that comes later', got.endswith(b'later'), got)
got = talk(b'GET /later HTTP/1.1\r\nhost: x\r\n\r\n' + ONE, until=b'"a"}')
check('and the next request waits for it', got.index(b'later') < got.index(b'"a"}'), got)
got = talk(b'HEAD /metrics HTTP/1.1\r\nhost: x\r\n\r\n', 0.3)
check('HEAD has no body', got.endswith(b'\r\n\r\n') and b'content-length: 4' in got, got)
got = talk(b'POST /form?a=b HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nx=y', until=b'x=y')
check('a plain form, query left out of the path', b'200 OK' in got, got)
got = talk(b'POST /form HTTP/1.1\r\nhost: x\r\ncontent-length: 2000000\r\n\r\n' + bytes(2000000), 2, until=b'413')
check('a plain body over 1 MiB', b' 413 ' in got, got[:50])
got = talk(b'GET /.well-known/x HTTP/1.1\r\nhost: x\r\n\r\n', until=b'404')
check('/.well-known/ is not an RPC', b' 404 ' in got, got)
got = talk(b'POST /echo.v1.Echo/Unary HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc\r\ncontent-length: 5\r\n\r\n' + bytes(5), until=b'415')
check('gRPC needs HTTP/2', b' 415 ' in got, got)

# ---- malformed ----
for name, data in (
        ('length and coding', POST + b'content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'),
        ('coding and length', POST + b'transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n'),
        ('two lengths', POST + b'content-length: 2\r\ncontent-length: 2\r\n\r\n{}'),
        ('a list of lengths', POST + b'content-length: 2, 2\r\n\r\n{}'),
        ('length +2', POST + b'content-length: +2\r\n\r\n{}'),
        ('length -2', POST + b'content-length: -2\r\n\r\n{}'),
        ('length 0x2', POST + b'content-length: 0x2\r\n\r\n{}'),
        ('empty length', POST + b'content-length: \r\n\r\n{}'),
        ('length 2^64+2', POST + b'content-length: 18446744073709551618\r\n\r\n{}'),
        ('coding identity', POST + b'transfer-encoding: identity\r\n\r\n{}'),
        ('coding gzip, chunked', POST + b'transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n'),
        ('coding chunked twice', POST + b'transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'),
        ('coding xchunked', POST + b'transfer-encoding: xchunked\r\n\r\n0\r\n\r\n'),
        ('coding with a tab', POST + b'transfer-encoding\t: chunked\r\n\r\n0\r\n\r\n'),
        ('coding in HTTP/1.0', POST.replace(b'1.1', b'1.0') + b'transfer-encoding: chunked\r\n\r\n0\r\n\r\n'),
        ('no host', b'POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n'),
        ('two hosts', POST + b'host: y\r\ncontent-length: 0\r\n\r\n'),
        ('blank before the colon', POST + b'content-length : 2\r\n\r\n{}'),
        ('blank before the name', POST + b' content-length: 2\r\n\r\n{}'),
        ('folded line', POST + b'x: a\r\n b\r\ncontent-length: 2\r\n\r\n{}'),
        ('bare LF', b'POST / HTTP/1.1\nhost: x\n\n'),
        ('bare LF in the head', POST + b'x: a\ncontent-length: 2\r\n\r\n{}'),
        ('bare CR in a value', POST + b'x: a\rb\r\ncontent-length: 2\r\n\r\n{}'),
        ('NUL in a value', POST + b'x: a\0b\r\ncontent-length: 2\r\n\r\n{}'),
        ('no colon', POST + b'x\r\ncontent-length: 2\r\n\r\n{}'),
        ('empty name', POST + b': a\r\ncontent-length: 2\r\n\r\n{}'),
        ('bad chunk size', POST + b'transfer-encoding: chunked\r\n\r\nzz\r\n'),
        ('chunk size 0x2', POST + b'transfer-encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n'),
        ('chunk size with a blank', POST + b'transfer-encoding: chunked\r\n\r\n2 \r\n{}\r\n0\r\n\r\n'),
        ('chunk of 2^64', POST + b'transfer-encoding: chunked\r\n\r\n10000000000000000\r\n'),
        ('chunk size by LF', POST + b'transfer-encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n'),
        ('chunk without CRLF', POST + b'transfer-encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n'),
        ('chunk extension without end', POST + b'transfer-encoding: chunked\r\n\r\n2;' + b'a' * 1000),
        ('bad trailer', POST + b'transfer-encoding: chunked\r\n\r\n0\r\nbad\r\n\r\n'),
        ('absolute target', b'POST http://x/ HTTP/1.1\r\nhost: x\r\n\r\n'),
        ('asterisk target', b'OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n'),
        ('authority target', b'CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n'),
        ('blank in the target', b'GET /a b HTTP/1.1\r\nhost: x\r\n\r\n'),
        ('two blanks', b'GET  / HTTP/1.1\r\nhost: x\r\n\r\n'),
        ('byte 0x80 in the target', b'GET /\x80 HTTP/1.1\r\nhost: x\r\n\r\n'),
        ('HTTP/3.0', b'GET / HTTP/3.0\r\nhost: x\r\n\r\n'),
        ('HTTP/1.2', b'GET / HTTP/1.2\r\nhost: x\r\n\r\n'),
        ('http/1.1', b'GET / http/1.1\r\nhost: x\r\n\r\n'),
        ('other expectation', POST + b'expect: tea\r\ncontent-length: 0\r\n\r\n'),
        ('100 KB of header', POST + b'x: ' + b'a' * 100000 + b'\r\n\r\n'),
        ('100 headers', POST + b''.join(b'x%d: y\r\n' % i for i in range(100)) + b'\r\n'),
        ('trailers without end', POST + b'transfer-encoding: chunked\r\n\r\n0\r\n' + b'x: y\r\n' * 5000)):
    got = talk(data)
    fine = any(got.startswith(b'HTTP/1.1 ' + s) for s in (b'400', b'417', b'431', b'505')) or got == b''
    check('refused: ' + name, fine and got.count(b'HTTP/1.1') <= 1, got[:60])

# ---- who was refused can say which request it was ----
def tells_id(name, reason, status, data):
    server.refusal()
    got = talk(data, until=b'\r\n\r\n').partition(b'\r\n\r\n')[0]
    told = [line[14:].decode() for line in got.split(b'\r\n') if line.startswith(b'x-request-id: ')]
    refusal = server.refusal()
    check('the id of a refusal: ' + name, refusal[:2] == [reason, str(status)] and told == refusal[2:] and
          len(told[0]) == 32 and got.startswith(b'HTTP/1.1 %d ' % status), (refusal, got))


CHUNKED = b'host: x\r\ntransfer-encoding: chunked\r\n\r\n'
tells_id('a method', 'METHOD_NOT_ALLOWED', 405, POST.replace(b'POST', b'PUT') + b'content-length: 0\r\n\r\n')
tells_id('a content type', 'UNKNOWN_CONTENT_TYPE', 415, POST.replace(b'json', b'nonsense') + b'content-length: 0\r\n\r\n')
tells_id('a timeout', 'BAD_TIMEOUT', 400, POST + b'connect-timeout-ms: x\r\ncontent-length: 2\r\n\r\n{}')
tells_id('a path', 'NOT_FOUND', 404, b'GET /x HTTP/1.1\r\nhost: x\r\n\r\n')
tells_id('a plain body', 'BODY_TOO_LARGE', 413, b'POST /form HTTP/1.1\r\nhost: x\r\ncontent-length: 2000000\r\n\r\n' + bytes(2000000))
tells_id('a head', 'MALFORMED', 400, b'GET /a b HTTP/1.1\r\nhost: x\r\n\r\n')
tells_id('a large head', 'HEADERS_TOO_LARGE', 431, POST + b'x: ' + b'a' * 100000 + b'\r\n\r\n')
tells_id('a chunk of a plain body', 'MALFORMED', 400, b'POST /form HTTP/1.1\r\n' + CHUNKED + b'zz\r\n')
tells_id('one that the client made up', 'NOT_FOUND', 404, b'GET /x HTTP/1.1\r\nhost: x\r\nx-request-id: mine\r\n\r\n')
got = talk(POST + CHUNKED[9:] + b'zz\r\n')
check('a body that breaks off after the call began is answered once', got.count(b'HTTP/1.1 400') == 1 and
      b'connection: close' in got and server.refusal() == [], got)

# ---- time ----
def closes(data, name, limit=3, drip=None):
    start = time.time()
    k = server.connect_unix()
    k.sendall(data)
    k.settimeout(0.2 if drip else limit)
    got = None
    while got != b'' and time.time() - start < limit:
        try:
            got = k.recv(65536)
        except TimeoutError:
            if drip:
                try:
                    k.sendall(drip)
                except OSError:
                    break
        except OSError:
            break
    check(name, time.time() - start < limit - 0.2, '%.1fs' % (time.time() - start))
    k.close()

closes(b'POST / HTTP/1.1\r\nhost:', 'half a head is closed')
closes(b'POST / HTTP/1.1\r\nhost: x\r\n', 'a head that drips is closed', drip=b'x')
closes(POST + b'content-length: 100\r\n\r\n{', 'half a body is closed')
closes(POST + b'content-length: 100000\r\n\r\n{', 'a body that drips is closed', drip=b'x')
closes(ONE, 'an idle connection is closed')
closes(POST.replace(b'Unary', b'Sleep') + b'content-length: 3\r\n\r\n300', 'an answered call, then idle', limit=4)
got = talk(POST.replace(b'Unary', b'Sleep') + b'content-length: 4\r\n\r\n2500', 4, until=b'slept')
check('waiting for the handler is not idling', b'slept' in got, got)
before = server.stats()['cancelled']
talk(POST.replace(b'Unary', b'Sleep') + b'content-length: 5\r\n\r\n30000', 0.3)
check.wait('a lost connection reaches the handler', lambda: server.stats()['cancelled'] == before + 1)
got = talk(POST.replace(b'Unary', b'Sleep') + b'connect-timeout-ms: 200\r\ncontent-length: 5\r\n\r\n30000', 2, until=b'}')
check('a deadline is answered', b' 504 ' in got and b'deadline_exceeded' in got, got)
got = talk(POST + b'connect-timeout-ms: x\r\ncontent-length: 2\r\n\r\n{}', 2, until=b'}')
check('a malformed timeout', b' 400 ' in got and b'invalid_argument' in got, got)

# ---- Connect ----
fail = POST.replace(b'Unary', b'Fail')
for code, status, name in ((1, 499, 'canceled'), (3, 400, 'invalid_argument'), (5, 404, 'not_found'), (6, 409, 'already_exists'),
                           (7, 403, 'permission_denied'), (8, 429, 'resource_exhausted'), (9, 400, 'failed_precondition'),
                           (10, 409, 'aborted'), (12, 501, 'unimplemented'), (13, 500, 'internal'), (14, 503, 'unavailable'),
                           (16, 401, 'unauthenticated')):
    body = b'%d why "\n\xc3\xa9' % code
    got = talk(fail + b'content-length: %d\r\n\r\n' % len(body) + body, until=b'}')
    head, _, text = got.partition(b'\r\n\r\n')
    check('error %s is %d' % (name, status), head.startswith(b'HTTP/1.1 %d' % status) and
          json.loads(text) == {'code': name, 'message': 'why "\n\u00e9'}, got)
packed = gzip.compress(b'z' * 3000)
got = talk(POST + b'content-encoding: gzip\r\naccept-encoding: br, gzip;q=1\r\nconnection: close\r\ncontent-length: %d\r\n\r\n' % len(packed) + packed)
head, _, text = got.partition(b'\r\n\r\n')
check('gzip both ways', b'content-encoding: gzip' in head and gzip.decompress(text) == b'z' * 3000, head)


def unchunk(data):
    out = b''
    while data:
        size, _, data = data.partition(b'\r\n')
        n = int(size, 16)
        out, data = out + data[:n], data[n + 2:]
    return out


def envelopes(data):
    found = []
    while data:
        n = int.from_bytes(data[1:5], 'big')
        found.append((data[0], data[5:5 + n]))
        data = data[5 + n:]
    return found


stream = POST.replace(b'application/json', b'application/connect+json').replace(b'Unary', b'Bidi')
body = envelope(b'{"n":1}') + envelope(b'{"n":2}')
got = talk(stream + b'connection: close\r\nx-echo: t\r\ncontent-length: %d\r\n\r\n' % len(body) + body)
head, _, data = got.partition(b'\r\n\r\n')
found = envelopes(unchunk(data))
check('a stream', [f for f, _ in found] == [0, 0, 2] and found[1][1] == b'{"n":2}' and
      json.loads(found[2][1])['metadata']['x-echo-trailer'] == ['t'] and b'application/connect+json' in head, got)
body = envelope(b'7 late')
got = talk(stream.replace(b'Bidi', b'FailLate') + b'connection: close\r\ncontent-length: %d\r\n\r\n' % len(body) + body)
found = envelopes(unchunk(got.partition(b'\r\n\r\n')[2]))
check('a stream that fails is 200 with an error at its end', b' 200 ' in got and found[0][0] == 2 and
      json.loads(found[0][1])['error'] == {'code': 'permission_denied', 'message': 'late'}, got)
got = talk(stream.replace(b'Bidi', b'Unary') + b'content-length: 0\r\n\r\n', until=b'415')
check('a stream type on a unary method', b' 415 ' in got, got)
got = talk(POST.replace(b'Unary', b'Bidi') + b'content-length: 0\r\n\r\n', until=b'415')
check('a unary type on a stream method', b' 415 ' in got, got)
web = POST.replace(b'application/json', b'application/grpc-web+proto')
got = talk(web + b'connection: close\r\ncontent-length: 6\r\n\r\n' + envelope(b'w'))
found = envelopes(unchunk(got.partition(b'\r\n\r\n')[2]))
check('gRPC-Web', found == [(0, b'w'), (0x80, b'grpc-status: 0\r\n')], got)

# A client that does not read holds the sender back.
flood_body = envelope(b'1000000000 32768')
k = server.connect_unix()
before = server.rss_mb()
k.sendall(stream.replace(b'Bidi', b'Flood') + b'content-length: %d\r\n\r\n' % len(flood_body) + flood_body)
time.sleep(0.5)
check('a reader that stops holds the sender', server.rss_mb() - before < 8)
k.close()
k = server.connect_unix()
k.sendall(stream.replace(b'Bidi', b'Lazy') + b'transfer-encoding: chunked\r\n\r\n')
k.settimeout(0.5)
taken = 0
try:
    while taken < 50 << 20:
        k.sendall(b'ffff\r\n' + envelope(bytes(65530)) + b'\r\n')
        taken += 65535
except OSError:
    pass
check('a paused handler holds the client', taken < 4 << 20, '%d KiB' % (taken >> 10))
k.close()
check.wait('no call is left', lambda: server.stats()['live'] == 1)

# ---- curl ----
def curl(*args):
    base = ['curl', '-sS', '--max-time', '20', '--cacert', server.ca, '-w', '\n%{http_version} %{http_code}']
    done = subprocess.run(base + list(args), capture_output=True)
    return done.stdout + done.stderr

url = 'https://localhost:%d' % server.port
for version, option in ((b'2', '--http2'), (b'1.1', '--http1.1')):
    got = curl(option, '-H', 'content-type: application/json', '-d', '{"a":1}', url + '/echo.v1.Echo/Unary')
    check('curl %s' % option, got == b'{"a":1}\n%s 200' % version, got)
got = curl('--unix-socket', server.socket_path, '-H', 'content-type: application/json', '-d', '{}', 'http://x/echo.v1.Echo/WhoAmI')
check('curl on a unix socket: who it is', b'unix:pid=' in got and b'owner=1' in got and b'tls=0' in got, got)
got = curl('--http2-prior-knowledge', '--unix-socket', server.socket_path, '-H', 'content-type: application/json', '-d', '{}', 'http://x/echo.v1.Echo/WhoAmI')
check('curl, plaintext HTTP/2', got.endswith(b'2 200'), got)
got = curl('-H', 'content-type: application/json', '-d', '{}', url + '/echo.v1.Echo/WhoAmI')
check('curl on TLS: who it is', b'127.0.0.1:' in got and b'owner=0' in got and b'tls=1' in got, got)
got = curl('--http1.1', url + '/metrics', url + '/metrics', url + '/nothing')
check('curl reuses the connection', got.count(b'live=0') == 2 and got.endswith(b'1.1 404'), got)
open(server.dir + '/big', 'wb').write(b'q' * (6 << 20))
for option in ('--http2', '--http1.1'):
    got = curl(option, '-H', 'content-type: application/json', '--data-binary', '@' + server.dir + '/big', url + '/echo.v1.Echo/Unary')
    check('curl %s, 6 MiB both ways' % option, len(got) > 6 << 20 and got.endswith(b'200'), got[-30:])
check('alive after all that', server.is_alive())
check.finish(server)
