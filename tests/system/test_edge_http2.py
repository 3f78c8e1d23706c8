"""HTTP/2 and gRPC by raw frames against the edge's echo server, most of them hostile.

usage: test_edge_http2.py EDGE_ECHO
"""
import os, socket, struct, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from edge_client import *

check = Checks()
server = Server(sys.argv[1], 'idle', 2000, 'handshake', 1000, 'head', 1000, 'streams', 256)

# ---- forms of a call ----
for content_type, want in (
        ('application/grpc', '0'), ('application/grpc+proto', '0'), ('application/grpc;charset=utf-8', '0'),
        ('application/grpc+json', '0'), ('APPLICATION/GRPC', '0'), ('application/grpc+thrift', '415'),
        ('application/grpcx', '415'), (None, '415'), ('application/connect+json', '415')):
    h, d = server.call('Unary', b'{}', content_type=content_type)
    check('content-type %s' % content_type, want in (h.get('grpc-status'), h.get(':status')), h)
for value, want in (('1S', '0'), ('99999999H', '0'), ('0n', '4'), ('-1S', '3'), ('1', '3'), ('1x', '3'), ('S', '3'),
                    ('1.5S', '3'), ('123456789S', '3'), ('5000000u', '0'), ('', '3')):
    h, d = server.call('Unary', b'', extra=[('grpc-timeout', value)])
    check('grpc-timeout "%s"' % value, h.get('grpc-status') == want, h)
for name, body, want in (
        ('no message', b'', '12'), ('two messages to a unary method', envelope() * 2, '12'),
        ('a cut message', b'\0\0\0\0\5ab', '3'), ('a length of 4 GiB', b'\0\xff\xff\xff\xff', '8'),
        ('a length one over the limit', struct.pack('>BI', 0, 8 * 1024 * 1024 + 1), '8'),
        ('an unknown flag', b'\4\0\0\0\0', '13'), ('compressed without an encoding', b'\1\0\0\0\0', '13')):
    h, d = server.call('Unary', body=body)
    check('body: ' + name, h.get('grpc-status') == want, h)
h, d = server.call('Unary', b'x', extra=[('grpc-encoding', 'zstd')])
check('unknown compression', h.get('grpc-status') == '12' and 'gzip' in h.get('grpc-accept-encoding', ''), h)
h, d = server.call('Nope', b'x')
check('unknown method', h.get('grpc-status') == '12', h)
h, d = server.call('Unary', b'x', verb='GET')
check('GET of a method', h.get(':status') == '405' and h.get('allow') == 'POST', h)
h, d = server.call('Fail', 'é\n%'.join(['5 a', 'b']).encode())
check('grpc-message is percent-encoded', h.get('grpc-message') == 'a%C3%A9%0A%25b', h)
h, d = server.call('Unary', b'x', extra=[('x-echo', 'v')])
check('headers, trailers, binary trailers', h.get('x-echo') == 'v' and h.get('x-echo-trailer') == 'v' and
      h.get('x-echo-bin') == 'AAH/', h)
h, d = server.call('Unary', b'x' * 5000)
check('a message larger than a frame comes back whole', d == envelope(b'x' * 5000), len(d))
h, d = server.call('Unary', b'x', extra=[('x-%d' % i, 'v' * 300) for i in range(60)])
check('16 KiB of headers: 431', h.get(':status') == '431', h)
h, d = server.call('Unary', b'x', extra=[('x-%d' % i, 'v') for i in range(100)])
check('100 headers: 431', h.get(':status') == '431', h)

# Who was refused can say which request it was.
for name, reason, status, options in (
        ('a method', 'METHOD_NOT_ALLOWED', '405', {'verb': 'GET'}),
        ('a content type', 'UNKNOWN_CONTENT_TYPE', '415', {'content_type': 'text/plain'}),
        ('a timeout, in gRPC', 'BAD_TIMEOUT', '200', {'extra': [('grpc-timeout', 'x')]}),
        ('a compression, in gRPC-Web', 'UNKNOWN_COMPRESSION', '200',
         {'content_type': 'application/grpc-web', 'extra': [('grpc-encoding', 'zstd')]}),
        ('a compression, in a Connect stream', 'UNKNOWN_COMPRESSION', '200',
         {'method': 'Bidi', 'content_type': 'application/connect+json', 'extra': [('connect-content-encoding', 'br')]}),
        ('headers', 'HEADERS_TOO_LARGE', '431', {'extra': [('x-%d' % i, 'v') for i in range(100)]}),
        ('one that the client made up', 'BAD_TIMEOUT', '200', {'extra': [('grpc-timeout', 'x'), ('x-request-id', 'mine')]})):
    server.refusal()
    h, d = server.call(options.pop('method', 'Unary'), b'x', **options)
    refusal = server.refusal()
    check('the id of a refusal: ' + name, refusal == [reason, status, h.get('x-request-id')] and len(refusal[2]) == 32 and
          h.get(':status') == status, (refusal, h))
server.refusal()
block = headers(SERVICE + 'Unary', extra=[('x-%d' % i, 'v' * 16000) for i in range(5)])
pieces = [block[i:i + 16384] for i in range(0, len(block), 16384)]
c = Http2(server)
c.send(frame(HEADERS, END_STREAM, 1, pieces[0]) + b''.join(frame(CONTINUATION, 0, 1, p) for p in pieces[1:-1]) +
       frame(CONTINUATION, END_HEADERS, 1, pieces[-1]))
h, d = c.answer(1)
c.close()
check('a stream that is reset at its head has an id, too', 'reset' in h and server.refusal()[:2] == ['HEADERS_TOO_LARGE', '0'],
      (h, len(block)))

c = Http2(server)
c.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, headers(SERVICE + 'Collect')))
h, d = c.answer(1)
check('half-close at once on a client stream', h.get('grpc-status') == '0' and b'0 messages' in d, h)
c.close()
c = Http2(server)
c.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'Fail')) + frame(DATA, 0, 1, envelope(b'5 no')))
fs = c.frames(1)
check('an early error: trailers only, then RST_STREAM(NO_ERROR)',
      any(f[0] == HEADERS and f[1] & 1 and f[3].get('grpc-status') == '5' for f in fs) and
      any(f[0] == RST and f[3] == bytes(4) for f in fs), [f[:2] for f in fs])
c.close()
c = Http2(server)
body = envelope(b'ab') + envelope(b'cd')
c.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'Bidi')))
for b in body:
    c.send(frame(DATA, 0, 1, bytes([b])))
c.send(frame(DATA, END_STREAM, 1))
h, d = c.answer(1)
check('messages cut into single bytes', d == body and h.get('grpc-status') == '0', d)
c.close()
c = Http2(server)
c.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'Bidi')) + frame(DATA, 0, 1, envelope(b'a')))
c.frames(1, lambda f: f[0] == DATA)
c.send(frame(DATA, 0, 1, envelope(b'b') * 1000) + frame(DATA, END_STREAM, 1))
h, d = c.answer(1)
check('1000 messages in one frame', d == envelope(b'b') * 1000, len(d))
c.close()

# ---- the end of a call ----
def count(key):
    return server.stats()[key]

before = count('cancelled')
c = Http2(server)
c.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'Sleep')) + frame(DATA, END_STREAM, 1, envelope(b'30000')))
c.frames(0.2)
c.send(frame(RST, 0, 1, struct.pack('>I', 8)))
check.wait('RST_STREAM(CANCEL) reaches the handler', lambda: count('cancelled') == before + 1)
c.send(frame(HEADERS, END_HEADERS, 3, headers(SERVICE + 'Sleep')) + frame(DATA, END_STREAM, 3, envelope(b'30000')))
c.frames(0.2)
c.close()
check.wait('a lost connection reaches the handler', lambda: count('cancelled') == before + 2)
c = Http2(server)
c.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'FailLate')) + frame(DATA, 0, 1, envelope(b'5 no')))
fs = c.frames(0.5)
check('an answered two-way stream is not reset at once', any(f[0] == HEADERS for f in fs) and not any(f[0] == RST for f in fs))
end = time.time() + 8
while time.time() < end and not c.is_closed and not any(f[0] == RST for f in fs):
    fs = c.frames(1, lambda f: f[0] in (RST, PING))
    for f in fs:
        if f[0] == PING and not f[1]:
            c.send(frame(PING, 1, 0, f[3]))
check('but is, when the client never ends its side', any(f[0] == RST for f in fs), fs)
check.wait('and counts as finished', lambda: count('live') == 1)
c.close()
before = count('deadline')
t = time.time()
h, d = server.call('Sleep', b'30000', extra=[('grpc-timeout', '300m')])
check('a deadline is answered', h.get('grpc-status') == '4' and time.time() - t < 1.5, h)
check('a deadline reaches the handler', count('deadline') == before + 1)
h, d = server.call('Flood', b'100000000 30000', extra=[('grpc-timeout', '300m')], timeout=0.7)
check.wait('a deadline with a full queue reaches the handler', lambda: count('deadline') == before + 2)
c = Http2(server)
c.send(b''.join(frame(HEADERS, END_HEADERS, 1 + 2 * i, headers(SERVICE + 'Hold')) for i in range(300)))
refused = sum(f[0] == RST and f[3] == struct.pack('>I', 7) for f in c.frames(0.7))
check('300 streams at a limit of 256: the rest is refused', refused == 44 or c.is_closed, refused)
c.close()
check.wait('no call is left', lambda: count('live') == 1)

# ---- floods ----
def flood(name, make, count=20000, memory_mb=40, must_close=True):
    c = Http2(server)
    before, sent = server.rss_mb(), 0
    c.socket.settimeout(3)  # a server that stopped reading is a good answer too
    for i in range(count // 100):
        if not c.send(make(i)):
            break
        sent += 100
    c.frames(0.3)
    after = server.rss_mb()
    if not c.is_closed:
        c.closes_within(1)
    c.close()
    check(name, (c.is_closed or not must_close) and after - before < memory_mb and server.is_alive(),
          'closed %s after at most %d frames, %+.1f MB' % (c.is_closed, sent, after - before))

block = headers(SERVICE + 'Hold')
flood('rapid reset (CVE-2023-44487)', lambda i: b''.join(
    frame(HEADERS, END_HEADERS, 1 + 2 * (i * 100 + j), block) + frame(RST, 0, 1 + 2 * (i * 100 + j), struct.pack('>I', 8))
    for j in range(100)))
flood('CONTINUATION flood (CVE-2024-28182)', lambda i: (frame(HEADERS, 0, 1, block) if i == 0 else b'') +
      frame(CONTINUATION, 0, 1, b'\x00\x01a\x01b') * 100)
flood('PING flood, answers unread (CVE-2019-9512)', lambda i: frame(PING, 0, 0, b'12345678') * 100, count=200000)
flood('SETTINGS flood (CVE-2019-9515)', lambda i: frame(SETTINGS, 0, 0) * 100, count=200000)
flood('provoked resets (CVE-2019-9514)', lambda i: b''.join(
    frame(HEADERS, END_HEADERS, 1 + 2 * (i * 100 + j), block) + frame(WINDOW, 0, 1 + 2 * (i * 100 + j), bytes(4))
    for j in range(100)))
flood('empty DATA frames (CVE-2019-9518)', lambda i: (frame(HEADERS, END_HEADERS, 1, block) if i == 0 else b'') +
      frame(DATA, 0, 1) * 100, must_close=False)
flood('PRIORITY churn (CVE-2019-9513)', lambda i: b''.join(
    frame(2, 0, 1 + 2 * (i * 100 + j), struct.pack('>IB', 0, 1)) for j in range(100)), must_close=False)
flood('unknown frames', lambda i: frame(0xee, 0, 0, bytes(50)) * 100, must_close=False)
flood('WINDOW_UPDATE flood', lambda i: frame(WINDOW, 0, 0, struct.pack('>I', 1)) * 100, must_close=False)
flood('zero window updates', lambda i: frame(WINDOW, 0, 0, bytes(4)) * 100)
# HPACK: one large entry, named again and again.
enc = hpack.Encoder()
first = enc.encode([(':method', 'POST'), (':scheme', 'http'), (':path', SERVICE + 'Hold'), ('x', 'b' * 3900)])
c = Http2(server)
before = server.rss_mb()
c.send(frame(HEADERS, END_HEADERS, 1, first))
c.send(b''.join(frame(HEADERS, END_HEADERS, 3 + 2 * i, enc.encode(
    [(':method', 'POST'), (':scheme', 'http'), (':path', SERVICE + 'Hold')] + [('x', 'b' * 3900)] * 1000)) for i in range(100)))
c.frames(0.5)
check('HPACK bomb', server.rss_mb() - before < 40 and server.is_alive(), '%+.1f MB' % (server.rss_mb() - before))
c.close()
# gzip bomb
import gzip
h, d = server.call('Unary', body=envelope(gzip.compress(bytes(60000000)), 1), extra=[('grpc-encoding', 'gzip')])
check('gzip bomb', h.get('grpc-status') == '8', h)
h, d = server.call('Unary', body=envelope(gzip.compress(b'y' * 3000), 1),
                   extra=[('grpc-encoding', 'gzip'), ('grpc-accept-encoding', 'gzip')])
check('gzip both ways', h.get('grpc-encoding') == 'gzip' and d[:1] == b'\1' and gzip.decompress(d[5:]) == b'y' * 3000, h)
h, d = server.call('Unary', body=envelope(b'not gzip at all', 1), extra=[('grpc-encoding', 'gzip')])
check('damaged gzip', h.get('grpc-status') == '3', h)

# ---- clients that do not read ----
before = server.rss_mb()
c = Http2(server, settings=struct.pack('>HI', 4, 0x7fffffff))
c.send(frame(WINDOW, 0, 0, struct.pack('>I', 0x7fff0000 - 65535)))
c.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'Flood')) + frame(DATA, END_STREAM, 1, envelope(b'2000000000 32768')))
time.sleep(1)
check('window open, socket shut (CVE-2019-9517): the sender waits', server.rss_mb() - before < 8, '%+.1f MB' % (server.rss_mb() - before))
c.close()
before = server.rss_mb()
c = Http2(server)
c.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'Flood')) + frame(DATA, END_STREAM, 1, envelope(b'2000000000 32768')))
fs = c.frames(1)
check('window shut: 64 KiB come, no more', sum(len(f[3]) for f in fs if f[0] == DATA) == 65535 and server.rss_mb() - before < 8)
c.close()

def upload(c, stream, seconds=1.5):
    """Sends as much as the windows allow; the bytes that were taken."""
    sent, windows = 0, {0: 65535, stream: 65535}
    message = envelope(bytes(16384 - 5))
    end = time.time() + seconds
    while time.time() < end:
        for f in c.frames(0.01):
            if f[0] == WINDOW:
                windows[f[2]] = windows.get(f[2], 0) + int.from_bytes(f[3], 'big')
            if f[0] == SETTINGS and not f[1]:
                for j in range(0, len(f[3]), 6):
                    if f[3][j + 1] == 4:
                        windows[stream] += int.from_bytes(f[3][j + 2:j + 6], 'big') - 65535
        while min(windows.values()) >= len(message) and sent < 4 << 20:
            c.send(frame(DATA, 0, stream, message))
            sent += len(message)
            windows[0] -= len(message)
            windows[stream] -= len(message)
    return sent

c = Http2(server)
c.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'Lazy')))
taken = upload(c, 1)
check('a paused handler holds the client', 0 < taken <= 600 << 10, '%d KiB' % (taken >> 10))
c.send(frame(HEADERS, END_HEADERS, 3, headers(SERVICE + 'Unary')) + frame(DATA, END_STREAM, 3, envelope(b'x')))
h, d = c.answer(3)
check('and not the other calls of the connection', h.get('grpc-status') == '0', h)
c.close()
c = Http2(server)
c.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'Bidi')))
taken = upload(c, 1)
check('echoes that nobody reads close the upload window', 0 < taken <= 1200 << 10, '%d KiB' % (taken >> 10))
c.close()
# Many large messages that never end.
before = server.rss_mb()
conns = []
for i in range(3):
    c = Http2(server)
    for s in range(1, 41, 2):
        c.send(frame(HEADERS, END_HEADERS, s, headers(SERVICE + 'Collect')) + frame(DATA, 0, s, struct.pack('>BI', 0, 8000000)))
    conns.append(c)
for c in conns:
    windows = 0
    for n in range(400):
        if c.is_closed:
            break
        for s in range(1, 41, 2):
            c.send(frame(DATA, 0, s, bytes(1000)))
        c.frames(0.001)
check('unfinished messages are bounded', server.rss_mb() - before < 120, '%+.1f MB' % (server.rss_mb() - before))
for c in conns:
    c.close()

# ---- timers ----
t = time.time()
k = socket.create_connection(('127.0.0.1', server.port))
k.settimeout(4)
try:
    d = k.recv(10)
except OSError:
    d = None
check('a TLS connection that never speaks is closed', d == b'' and time.time() - t < 3, '%.1fs' % (time.time() - t))
t = time.time()
k = server.connect_unix()
k.sendall(PREFACE[:10])
k.settimeout(4)
d = k.recv(10)
check('half a preface is closed', d == b'' and time.time() - t < 3, '%.1fs' % (time.time() - t))
c = Http2(server)
fs = c.frames(5, lambda f: f[0] == GOAWAY)
check('an idle connection gets GOAWAY and is closed', any(f[0] == GOAWAY for f in fs) and c.closes_within(2))
c = Http2(server)
c.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'Hold')))
fs = c.frames(4, lambda f: f[0] == PING and not f[1])
check('a quiet connection with a call gets a PING', any(f[0] == PING and not f[1] for f in fs))
c.send(frame(PING, 1, 0, fs[-1][3]))
fs = c.frames(4, lambda f: f[0] == PING and not f[1])
check('and, answered, another one', any(f[0] == PING and not f[1] for f in fs))
check('and is dropped when it does not answer', c.closes_within(5))

# ---- TLS ----
check('TLS, ALPN h2', server.connect_tls().selected_alpn_protocol() == 'h2')
check('TLS, ALPN http/1.1', server.connect_tls(('http/1.1',)).selected_alpn_protocol() == 'http/1.1')
for name in ('octelium-api.test.local', 'test.local', 'x.test.local'):
    check('the certificate is good for ' + name, server.connect_tls(name=name).version() == 'TLSv1.3')
def tls_fails(context):
    try:
        context.wrap_socket(socket.create_connection(('127.0.0.1', server.port)), server_hostname='localhost').recv(1)
        return False
    except (ssl.SSLError, OSError):
        return True
check('unknown ALPN is refused', tls_fails(server.tls_context(('spdy/3',))))
old = server.tls_context()
import warnings; warnings.simplefilter('ignore')
old.minimum_version = ssl.TLSVersion.TLSv1; old.maximum_version = ssl.TLSVersion.TLSv1_1
old.set_ciphers('ALL:@SECLEVEL=0')
check('TLS 1.1 is refused', tls_fails(old))
for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
    context = server.tls_context()
    context.minimum_version = context.maximum_version = version
    k = context.wrap_socket(socket.create_connection(('127.0.0.1', server.port)), server_hostname='localhost')
    k.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'Unary')) + frame(DATA, 1, 1, envelope(b'hi')))
    got = b''
    k.settimeout(2)
    while b'hi' not in got:
        got += k.recv(65536)
    check('a call over ' + version.name, True)
    k.close()
k = socket.create_connection(('127.0.0.1', server.port))
k.sendall(b'GET / HTTP/1.1\r\nhost: x\r\n\r\n')
k.settimeout(3)
try:
    d = k.recv(100)
    d += k.recv(100)
except OSError:
    d = b''
check('plain HTTP on the TLS port is closed', b'200' not in d)
os.kill(server.pid, signal.SIGHUP)
check('certificate is read again', server.process.stdout.readline().startswith(b'reload 0'))
check('and still good', server.connect_tls().version() == 'TLSv1.3')
key = open(server.dir + '/server.key').read()
check('key files have mode 0600', all(os.stat(server.dir + '/' + f).st_mode & 0o777 == 0o600 for f in ('server.key', 'ca.key')))
open(server.dir + '/server.key', 'w').write('damaged')
os.kill(server.pid, signal.SIGHUP)
check('a damaged key is refused', not server.process.stdout.readline().startswith(b'reload 0'))
check('and the old one goes on', server.connect_tls().version() == 'TLSv1.3')

# ---- closing one listener ----
c = Http2(server)
c.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'Hold')))
c.frames(0.2)
tls = Http2(server, tls=True)
os.kill(server.pid, signal.SIGUSR1)
check('a closed listener drops its connections', c.closes_within(2))
tls.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'Unary')) + frame(DATA, 1, 1, envelope(b'x')))
check('and no others', tls.answer(1)[0].get('grpc-status') == '0')
refused = False
try:
    server.connect_unix()
except OSError:
    refused = True
check('and accepts no more', refused)
status, said = server.stop()
check('a server without connections ends at once', status == 0 and 'live=0' in said, (status, said[-500:]))
check('no sanitizer report', 'runtime error' not in said and 'Sanitizer' not in said, said[-1500:])

# ---- connections of one source ----
server = Server(sys.argv[1], 'sources', 3)
kept = [server.connect_tls() for _ in range(3)]
def is_refused():
    try:
        server.connect_tls()
        return False
    except OSError:
        return True
check('a fourth connection of one source is refused', is_refused())
kept.pop().close()
time.sleep(0.2)
check('and accepted when one has gone', not is_refused())
check('unix sockets do not count', server.is_alive())
status, said = server.stop()
check('stopped', status == 0, said[-500:])

# ---- drain ----
server = Server(sys.argv[1])
c = Http2(server)
c.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + 'Sleep')) + frame(DATA, 1, 1, envelope(b'800')))
c.frames(0.2)
idle = Http2(server)
idle.frames(0.2)
server.drain()
fs = c.frames(3)
kinds = [f[0] for f in fs]
goaways = [struct.unpack('>II', f[3][:8]) for f in fs if f[0] == GOAWAY]
check('drain: the running call completes', any(f[0] == HEADERS and f[3].get('grpc-status') == '0' for f in fs))
check('drain: GOAWAY(last) comes after the last call', goaways == [(1, 0)] and kinds.index(GOAWAY) > kinds.index(HEADERS), goaways)
goaways = [struct.unpack('>II', f[3][:8]) for f in idle.frames(0.1) if f[0] == GOAWAY]
check('drain: an idle connection hears GOAWAY(2^31-1), then GOAWAY(last)', goaways == [(2**31 - 1, 0), (0, 0)], goaways)
check('drain: an idle connection is closed', idle.closes_within(1))
check.finish(server)
