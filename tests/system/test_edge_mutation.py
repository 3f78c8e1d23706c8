"""Whole connections, mutated, against the edge's echo server; most useful on a sanitizer build.

usage: test_edge_mutation.py EDGE_ECHO [SECONDS] [SEED]
"""
import os, random, socket, struct, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from edge_client import *

seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
rand = random.Random(seed)
check = Checks()
server = Server(sys.argv[1], 'idle', 1000, 'handshake', 500, 'head', 500)

METHODS = ['Unary', 'Fail', 'FailLate', 'Bidi', 'Collect', 'Flood', 'Sleep', 'Hold', 'Lazy', 'Nope']
TYPES = ['application/grpc', 'application/grpc+json', 'application/json', 'application/proto', 'application/connect+json',
         'application/connect+proto', 'application/grpc-web', 'x']
BODIES = [b'', b'5 text', b'100000 1000', b'{"text":"a"}', b'50', b'\x1f\x8b\x08' + bytes(20), b'x' * 3000]


def http2():
    out = PREFACE + frame(SETTINGS, 0, 0)
    for i in range(rand.randrange(1, 8)):
        stream, body = 1 + 2 * i, rand.choice(BODIES)
        whole = envelope(body, rand.choice([0, 0, 0, 1, 2, 128]))
        extra = [('grpc-timeout', rand.choice(['1S', '20m', '0n', 'x'])), ('grpc-encoding', rand.choice(['identity', 'gzip']))]
        out += frame(HEADERS, 4, stream, headers(SERVICE + rand.choice(METHODS), rand.choice(TYPES), extra[:rand.randrange(3)]))
        for _ in range(rand.randrange(3)):
            out += frame(DATA, rand.choice([0, 1]), stream, rand.choice([whole, body, whole + whole]))
        if rand.random() < .3:
            out += rand.choice([frame(RST, 0, stream, struct.pack('>I', 8)), frame(PING, 0, 0, b'12345678'),
                                frame(WINDOW, 0, rand.choice([0, stream]), b'\0\1\0\0'), frame(GOAWAY, 0, 0, bytes(8)),
                                frame(SETTINGS, 0, 0, struct.pack('>HI', 4, rand.randrange(100000)))])
    return out


def http1():
    body = rand.choice(BODIES + [envelope(b) for b in BODIES])
    head = b'POST %s%s HTTP/1.1\r\nhost: x\r\ncontent-type: %s\r\n' % (
        SERVICE.encode(), rand.choice(METHODS).encode(), rand.choice(TYPES).encode())
    if rand.random() < .2:
        head = b'POST /%s HTTP/1.1\r\nhost: x\r\n' % rand.choice([b'form', b'later', b'metrics', b'x'])
    if rand.random() < .5:
        one = head + b'content-length: %d\r\n\r\n' % len(body) + body
    else:
        one = head + b'transfer-encoding: chunked\r\n\r\n' + (b'%x\r\n%s\r\n' % (len(body), body) if body else b'') + b'0\r\n\r\n'
    return one * rand.randrange(1, 4)


def mutate(data):
    for _ in range(rand.choice([0, 0, 1, 2, 5])):
        i = rand.randrange(24 if data[:3] == b'PRI' and len(data) > 30 else 0, len(data))
        kind = rand.randrange(5)
        if kind == 0:
            data[i] ^= 1 << rand.randrange(8)
        elif kind == 1:
            data[i] = rand.choice([0, 255, 127, 128, 10, 13])
        elif kind == 2:
            del data[i:i + rand.randrange(1, 9)]
        elif kind == 3:
            data[i:i] = rand.randbytes(rand.randrange(1, 9))
        else:
            data[i:i] = data[max(0, i - 20):i]
        if not data:
            data = bytearray(b'x')
    return data


count, end = 0, time.time() + seconds
while time.time() < end and server.process.poll() is None:
    data = mutate(bytearray(rand.choice([http2, http1])()))
    try:
        s = server.connect_unix()
        s.settimeout(.02)
        cut = rand.randrange(len(data) + 1)
        s.sendall(data[:cut])
        s.sendall(data[cut:])
        if rand.random() < .8:
            s.recv(65536)
        if rand.random() < .3:
            s.shutdown(socket.SHUT_WR)
            s.recv(65536)
    except OSError:
        pass
    s.close()
    count += 1
check('seed %d: %d connections, and it lives' % (seed, count), server.process.poll() is None)
if server.process.poll() is None:
    check.wait('no call is left', lambda: server.stats()['live'] == 1, 5)
    check('no descriptor is left', server.fds() < 30, server.fds())
check.finish(server)
