"""The edge's echo server as gRPC's own client library sees it (Debian's python3-grpcio).

usage: test_edge_grpcio.py EDGE_ECHO
"""
import os, sys, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import grpc
except ImportError:
    os.execv('/usr/bin/python3', ['/usr/bin/python3'] + sys.argv)
from edge_client import *

check = Checks()
server = Server(sys.argv[1])


def channels():
    credentials = grpc.ssl_channel_credentials(open(server.ca, 'rb').read())
    yield 'TLS', grpc.secure_channel('localhost:%d' % server.port, credentials,
                                     options=[('grpc.max_receive_message_length', 16 << 20)])
    yield 'unix', grpc.insecure_channel('unix:' + server.socket_path,
                                        options=[('grpc.max_receive_message_length', 16 << 20)])


def status_of(work):
    try:
        work()
        return grpc.StatusCode.OK, ''
    except grpc.RpcError as e:
        return e.code(), e.details()


def run(where, channel):
    unary = lambda m: channel.unary_unary(SERVICE + m)
    check(where + ' unary', unary('Unary')(b'hi') == b'hi')
    check(where + ' empty message', unary('Unary')(b'') == b'')
    check(where + ' 8 MiB there and back', unary('Unary')(b'x' * (8 << 20)) == b'x' * (8 << 20))
    code, text = status_of(lambda: unary('Unary')(b'x' * ((8 << 20) + 1)))
    check(where + ' one byte over 8 MiB', code == grpc.StatusCode.RESOURCE_EXHAUSTED, text)
    for value in range(1, 17):
        code, text = status_of(lambda: unary('Fail')(b'%d \xc3\xa9 100%% \n' % value))
        check(where + ' status %d' % value, code.value[0] == value and text == '\u00e9 100% \n', (code, text))
    code, text = status_of(lambda: unary('Nope')(b''))
    check(where + ' unknown method', code == grpc.StatusCode.UNIMPLEMENTED, text)
    reply, call = unary('Unary').with_call(b'x', metadata=[('x-echo', 'v')])
    check(where + ' metadata', ('x-echo', 'v') in call.initial_metadata() and
          ('x-echo-bin', b'\x00\x01\xff') in call.trailing_metadata(), call.trailing_metadata())
    reply = unary('Unary').with_call(b'y' * 5000, compression=grpc.Compression.Gzip)[0]
    check(where + ' gzip', reply == b'y' * 5000)
    code, text = status_of(lambda: unary('Unary').with_call(b'y' * 5000, compression=grpc.Compression.Deflate))
    check(where + ' deflate is not served', code == grpc.StatusCode.UNIMPLEMENTED, text)
    t = time.time()
    code, text = status_of(lambda: unary('Sleep')(b'30000', timeout=0.3))
    check(where + ' deadline', code == grpc.StatusCode.DEADLINE_EXCEEDED and time.time() - t < 2)
    check(where + ' a sleep that ends in time', unary('Sleep')(b'100', timeout=5) == b'slept')
    total = sum(len(m) for m in channel.unary_stream(SERVICE + 'Flood')(b'50000000 30000'))
    check(where + ' server stream, 50 MB', total == 50000000, total)
    n = 0
    for m in channel.unary_stream(SERVICE + 'Flood')(b'30000000 1000'):
        n += 1
        if n == 100:
            time.sleep(0.3)  # the queue fills, and drains again
    check(where + ' server stream with a pause', n == 30000, n)
    reply = channel.stream_unary(SERVICE + 'Collect')(iter([b'abc'] * 2000))
    check(where + ' client stream', reply == b'2000 messages, 6000 bytes', reply)
    check(where + ' client stream of nothing', channel.stream_unary(SERVICE + 'Collect')(iter([])) == b'0 messages, 0 bytes')
    sent = [b'%d' % i * 100 for i in range(3000)]
    check(where + ' bidi, all at once', list(channel.stream_stream(SERVICE + 'Bidi')(iter(sent))) == sent)
    sent = [b'%d' % i * 60000 for i in range(40)]
    for i in range(5):
        check(where + ' bidi, large messages and pauses', list(channel.stream_stream(SERVICE + 'Bidi')(iter(sent))) == sent)
    go = threading.Semaphore(1)

    def ping():
        for i in range(200):
            go.acquire()
            yield b'%d' % i

    n = 0
    for m in channel.stream_stream(SERVICE + 'Bidi')(ping()):
        n += m == b'%d' % n
        go.release()
    check(where + ' ping-pong', n == 200, n)
    hold = channel.stream_stream(SERVICE + 'Hold')(iter([b'x']))
    time.sleep(0.1)
    before = server.stats()
    hold.cancel()
    check.wait(where + ' cancel', lambda: server.stats()['cancelled'] == before['cancelled'] + 1)
    futures = [unary('Unary').future(b'%d' % i) for i in range(2000)]
    check(where + ' 2000 at once', all(f.result() == b'%d' % i for i, f in enumerate(futures)))
    futures = [unary('Sleep').future(b'200') for i in range(500)]
    check(where + ' 500 sleeping', all(f.result() == b'slept' for f in futures))


for name, channel in channels():
    run(name, channel)
    channel.close()
check.wait('no call is left', lambda: server.stats()['live'] == 1)
check.finish(server)
