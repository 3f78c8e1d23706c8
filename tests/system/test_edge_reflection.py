"""Health and reflection of a running gateway, as a gRPC tool uses them.

usage: test_edge_reflection.py HOST:PORT CA.pem
"""
import os, sys, threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import grpc, hpack
    from google.protobuf import descriptor_pb2, descriptor_pool
except ImportError:
    os.execv('/usr/bin/python3', ['/usr/bin/python3'] + sys.argv)
from edge_client import Checks

check = Checks()
target, ca = sys.argv[1:]
channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(open(ca, 'rb').read()),
                              options=[('grpc.ssl_target_name_override', 'localhost')])


def varint(n):
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def text_field(number, text):
    return varint(number << 3 | 2) + varint(len(text)) + text.encode()


def fields(data):
    """(number, value) of each field of a serialized message."""
    found, at = [], 0

    def read():
        nonlocal at
        v = shift = 0
        while True:
            byte = data[at]
            at += 1
            v |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                return v
    while at < len(data):
        tag = read()
        if tag & 7 == 2:
            n = read()
            found.append((tag >> 3, data[at:at + n]))
            at += n
        else:
            found.append((tag >> 3, read()))
    return found


def health(service):
    reply = channel.unary_unary('/grpc.health.v1.Health/Check')(text_field(1, service) if service else b'', timeout=5)
    return dict(fields(reply)).get(1)


check('health of the whole', health('') == 1)
check('health of a service', health('octelium.api.main.cordium.v1.MainService') == 1)
try:
    health('no.Such')
    check('health of an unknown service', False)
except grpc.RpcError as e:
    check('health of an unknown service', e.code() == grpc.StatusCode.NOT_FOUND, e.details())
watch = channel.unary_stream('/grpc.health.v1.Health/Watch')(b'', timeout=5)
check('watch tells the state at once', dict(fields(next(watch))).get(1) == 1)
watch.cancel()
watch = channel.unary_stream('/grpc.health.v1.Health/Watch')(text_field(1, 'no.Such'), timeout=5)
check('watch of an unknown service', dict(fields(next(watch))).get(1) == 3)
watch.cancel()

for version in ('v1', 'v1alpha'):
    info = channel.stream_stream('/grpc.reflection.%s.ServerReflection/ServerReflectionInfo' % version)

    def ask(*questions):
        return [dict(fields(a)) for a in info(iter(questions), timeout=10)]

    answers = ask(text_field(7, '*'))
    services = [dict(fields(s))[1].decode() for n, s in fields(answers[0][6]) if n == 1]
    check(version + ' lists the services', 'octelium.api.main.cordium.v1.WorkspaceService' in services and
          'grpc.health.v1.Health' in services and len(services) == len(set(services)), services)
    answers = ask(*[text_field(4, s) for s in services])
    pool = descriptor_pool.DescriptorPool()
    files = {}
    for a in answers:
        for n, raw in fields(a[4]):
            f = descriptor_pb2.FileDescriptorProto.FromString(raw)
            files[f.name] = f

    def add(name):
        f = files.pop(name, None)
        if f:
            for d in f.dependency:
                add(d)
            pool.Add(f)
    for name in list(files):
        add(name)
    check(version + ' every service resolves from what came', all(pool.FindServiceByName(s).methods for s in services))
    exec_method = pool.FindServiceByName('octelium.api.main.cordium.v1.WorkspaceService').FindMethodByName('Exec')
    check(version + ' methods have their types', exec_method.input_type.name == 'ExecRequest')
    for symbol, is_known in (('octelium.api.main.cordium.v1.Workspace', True),
                             ('octelium.api.main.cordium.v1.Workspace.Spec.Runtime', True),
                             ('octelium.api.main.cordium.v1.Workspace.Spec.runtime', True),
                             ('octelium.api.main.cordium.v1.WorkspaceService.Exec', True),
                             ('google.protobuf.Timestamp', True), ('octelium.api.main.cordium.v1.Nope', False),
                             ('octelium.api.main.cordium.v1', False), ('octelium.api.main.cordium.v1.', False),
                             ('octelium.api.main.cordium.v1.Workspace.', False), ('', False), ('.', False)):
        answer = ask(text_field(4, symbol))[0]
        check('%s symbol "%s"' % (version, symbol), (4 in answer) == is_known and (7 in answer) != is_known, answer.get(7))
        check('%s the question comes back' % version, fields(answer[2]) == ([(4, symbol.encode())]), answer.get(2))
    answer = ask(text_field(3, 'google/protobuf/timestamp.proto'))[0]
    check(version + ' file by name', 4 in answer)
    answer = ask(text_field(3, 'nope.proto'))[0]
    check(version + ' no such file: NOT_FOUND', dict(fields(answer[7]))[1] == 5)
    answer = ask(text_field(6, 'octelium.api.main.cordium.v1.Workspace'))[0]
    check(version + ' no extensions', 5 in answer)
    extension = text_field(1, 'octelium.api.main.cordium.v1.Workspace') + varint(2 << 3) + varint(100)
    answer = ask(varint(5 << 3 | 2) + varint(len(extension)) + extension)[0]
    check(version + ' no such extension', dict(fields(answer[7]))[1] == 5)
    answer = ask(b'')[0]
    check(version + ' a question without a question', dict(fields(answer[7]))[1] == 3)
    check(version + ' 300 questions on one stream', len(ask(*[text_field(4, services[0])] * 300)) == 300)
check.finish()
