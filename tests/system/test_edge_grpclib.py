"""The edge's echo server as the SDK's transport sees it: grpclib on python h2.

usage: test_edge_grpclib.py EDGE_ECHO     (skips where grpclib is not installed: see build/venv)
"""
import asyncio, os, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../build/venv/bin/python')
try:
    import grpclib, hpack
except ImportError:
    if os.path.exists(VENV) and not os.environ.get('EDGE_VENV'):
        os.environ['EDGE_VENV'] = '1'
        os.execv(VENV, [VENV] + sys.argv)
    print('skipped: grpclib is not installed (make build/venv/.made)')
    sys.exit(1 if os.environ.get('MUST_WORK') else 0)

from grpclib.client import Channel
from grpclib.const import Cardinality, Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from edge_client import *

check = Checks()
server = Server(sys.argv[1])


class Raw:
    """Bytes as they are, instead of protobuf."""
    __content_subtype__ = 'proto'

    def encode(self, message, message_type):
        return message

    def decode(self, data, message_type):
        return data


def stream(channel, method, cardinality, **options):
    return channel.request(SERVICE + method, cardinality, bytes, bytes, **options)


async def unary(channel, method, message, **options):
    async with stream(channel, method, Cardinality.UNARY_UNARY, **options) as s:
        await s.send_message(message, end=True)
        return await s.recv_message()


async def run(where, channel):
    check(where + ' unary', await unary(channel, 'Unary', b'hi') == b'hi')
    big = b'x' * (5 << 20)
    check(where + ' 5 MiB there and back', await unary(channel, 'Unary', big) == big)
    try:
        await unary(channel, 'Fail', b'7 no \xc3\xa9')
        check(where + ' error', False)
    except GRPCError as e:
        check(where + ' error', e.status == Status.PERMISSION_DENIED and e.message == 'no \u00e9', e)
    try:
        await unary(channel, 'Nope', b'')
        check(where + ' unknown method', False)
    except GRPCError as e:
        check(where + ' unknown method', e.status == Status.UNIMPLEMENTED)
    t = time.time()
    try:
        await unary(channel, 'Sleep', b'30000', timeout=0.3)
        check(where + ' deadline', False)
    except (asyncio.TimeoutError, GRPCError):
        check(where + ' deadline', time.time() - t < 2)
    replies = await asyncio.gather(*[unary(channel, 'Unary', b'%d' % i) for i in range(500)])
    check(where + ' 500 at once', replies == [b'%d' % i for i in range(500)])
    replies = await asyncio.gather(*[unary(channel, 'Sleep', b'100') for i in range(1500)])
    check(where + ' 1500 at once, over the limit of streams', replies == [b'slept'] * 1500)
    async with stream(channel, 'Bidi', Cardinality.STREAM_STREAM) as s:
        fine = True
        for i in range(100):
            await s.send_message(b'%d' % i)
            fine = fine and await s.recv_message() == b'%d' % i
        await s.end()
        fine = fine and await s.recv_message() is None
    check(where + ' ping-pong, then half-close', fine)
    # As the SDK ends an exec: it has what it wants and leaves the stream, which resets it.
    before = server.stats()['cancelled']
    for i in range(300):
        async with stream(channel, 'Bidi', Cardinality.STREAM_STREAM) as s:
            await s.send_message(b'x')
            await s.recv_message()
            await s.cancel()
    check.wait(where + ' 300 streams left by the client', lambda: server.stats()['cancelled'] == before + 300,
               note=server.stats())
    check(where + ' and the connection lives', await unary(channel, 'Unary', b'hi') == b'hi')
    n = 0
    async with stream(channel, 'Flood', Cardinality.UNARY_STREAM) as s:
        await s.send_message(b'20000000 10000', end=True)
        async for m in s:
            n += len(m)
    check(where + ' server stream, 20 MB', n == 20000000, n)
    async with stream(channel, 'Flood', Cardinality.UNARY_STREAM) as s:
        await s.send_message(b'2000000000 10000', end=True)
        await s.recv_message()
        await s.cancel()
    check(where + ' a flood that is left', await unary(channel, 'Unary', b'hi') == b'hi')
    async with stream(channel, 'Collect', Cardinality.STREAM_UNARY) as s:
        for i in range(500):
            await s.send_message(b'y' * 1000)
        await s.end()
        reply = await s.recv_message()
    check(where + ' client stream', reply == b'500 messages, 500000 bytes', reply)


async def main():
    channel = Channel('localhost', server.port, ssl=server.tls_context(), codec=Raw())
    await run('TLS', channel)
    channel.close()
    channel = Channel(path=server.socket_path, codec=Raw())
    await run('unix', channel)
    channel.close()


asyncio.run(main())
check.wait('no call is left', lambda: server.stats()['live'] == 1, note=server.stats())
check.finish(server)
