"""Starts the edge's echo server and speaks raw frames to it. Shared by test_edge_*.py."""
import os, select, signal, socket, ssl, struct, subprocess, sys, tempfile, time

try:
    import hpack
except ImportError:  # Debian's modules belong to Debian's interpreter
    os.execv('/usr/bin/python3', ['/usr/bin/python3'] + sys.argv)

PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
SERVICE = '/echo.v1.Echo/'


class Server:
    def __init__(self, binary, *options):
        self.dir = tempfile.mkdtemp(prefix='edge')
        self.log = open(self.dir + '/stderr', 'wb')
        self.process = subprocess.Popen([binary, self.dir, *map(str, options)], stdout=subprocess.PIPE,
                                        stderr=self.log)
        line = self.process.stdout.readline().split()
        if len(line) != 2:
            raise SystemExit('the server did not start: ' + open(self.dir + '/stderr').read())
        self.port = int(line[1])
        self.socket_path = self.dir + '/edge.sock'
        self.ca = self.dir + '/ca.pem'
        self.pid = self.process.pid
        self.is_draining = False

    def connect_unix(self):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(self.socket_path)
        return s

    def tls_context(self, alpn=('h2',)):
        context = ssl.create_default_context(cafile=self.ca)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context

    def connect_tls(self, alpn=('h2',), name='localhost'):
        s = socket.create_connection(('127.0.0.1', self.port))
        return self.tls_context(alpn).wrap_socket(s, server_hostname=name)

    def rss_mb(self):
        for line in open('/proc/%d/status' % self.pid):
            if line.startswith('VmRSS'):
                return int(line.split()[1]) / 1024

    def fds(self):
        return len(os.listdir('/proc/%d/fd' % self.pid))

    def stats(self):
        """Counts of calls, as {'live': 0, ...}."""
        headers, data = self.call('Stats')
        return {k: int(v) for k, v in (x.split('=') for x in data[5:].decode().split())}

    def refusal(self):
        """What the edge refused last, if it did since this was last asked: [reason, HTTP status, request id]."""
        k = self.connect_unix()
        k.sendall(b'GET /refusal HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
        got = b''
        while piece := k.recv(65536):
            got += piece
        k.close()
        return got.partition(b'\r\n\r\n')[2].decode().split()

    def call(self, method, message=b'', timeout=3.0, body=None, **head):
        """One call by raw frames; its headers and trailers in one dict, and the DATA bytes."""
        c = Http2(self)
        body = envelope(message) if body is None else body
        pieces = [body[i:i + 16384] for i in range(0, len(body), 16384)] or [b'']
        c.send(frame(HEADERS, END_HEADERS, 1, headers(SERVICE + method, **head)) +
               b''.join(frame(DATA, 0, 1, p) for p in pieces[:-1]) + frame(DATA, END_STREAM, 1, pieces[-1]))
        result = c.answer(1, timeout)
        c.close()
        return result

    def is_alive(self):
        return self.call('Unary', b'hi')[0].get('grpc-status') == '0'

    def drain(self):
        if not self.is_draining:
            self.is_draining = True
            self.process.send_signal(signal.SIGTERM)

    def stop(self, timeout=10):
        """Drains; the exit status and what was said on stderr."""
        self.drain()
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = 'killed'
        return status, open(self.dir + '/stderr', errors='replace').read()


def frame(kind, flags, stream, payload=b''):
    return struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + payload


def envelope(message=b'', flags=0):
    return bytes([flags]) + struct.pack('>I', len(message)) + message


def headers(path, content_type='application/grpc', extra=(), verb='POST'):
    fields = [(':method', verb), (':scheme', 'http'), (':path', path), (':authority', 'localhost'),
              ('te', 'trailers')]
    fields += [('content-type', content_type)] if content_type else []
    fields += list(extra)
    return hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(k, v) for k, v in fields])


class Http2:
    """A connection that obeys nobody's window and answers nothing by itself."""

    def __init__(self, server, settings=b'', tls=False):
        self.socket = server.connect_tls() if tls else server.connect_unix()
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0, settings))
        self.buffer = b''
        self.decoder = hpack.Decoder()
        self.is_closed = False

    def send(self, data):
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            self.is_closed = True
            return False

    def frames(self, timeout=1.0, stop=None):
        end = time.time() + timeout
        found = []
        while time.time() < end:
            readable = select.select([self.socket], [], [], max(0, end - time.time()))[0]
            if not readable:
                break
            try:
                data = self.socket.recv(65536)
            except OSError:
                self.is_closed = True
                break
            if not data:
                self.is_closed = True
                break
            self.buffer += data
            while len(self.buffer) >= 9:
                n = int.from_bytes(self.buffer[:3], 'big')
                if len(self.buffer) < 9 + n:
                    break
                kind, flags = self.buffer[3], self.buffer[4]
                stream = int.from_bytes(self.buffer[5:9], 'big') & 0x7fffffff
                payload = self.buffer[9:9 + n]
                self.buffer = self.buffer[9 + n:]
                if kind == HEADERS:
                    payload = dict(self.decoder.decode(payload))
                found.append((kind, flags, stream, payload))
                if stop and stop(found[-1]):
                    return found
        return found

    def answer(self, stream, timeout=3.0):
        found, data = {}, b''
        for f in self.frames(timeout, lambda f: f[2] == stream and
                             (f[0] == RST or f[0] in (DATA, HEADERS) and f[1] & END_STREAM)):
            if f[2] == stream and f[0] == HEADERS:
                found.update(f[3])
            if f[2] == stream and f[0] == DATA:
                data += f[3]
            if f[2] == stream and f[0] == RST:
                found['reset'] = int.from_bytes(f[3], 'big')
        return found, data

    def closes_within(self, seconds):
        end = time.time() + seconds
        while not self.is_closed and time.time() < end:
            self.frames(min(0.2, max(0.01, end - time.time())))
        return self.is_closed

    def close(self):
        self.socket.close()


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, name, condition, note=''):
        if condition:
            self.passed += 1
        else:
            self.failed += 1
        print(('ok   ' if condition else 'FAIL ') + name, str(note)[:300], flush=True)

    def wait(self, name, condition, seconds=3, note=''):
        end = time.time() + seconds
        while not condition() and time.time() < end:
            time.sleep(0.05)
        self(name, condition(), note)

    def finish(self, server=None):
        if server:
            status, said = server.stop()
            self('the server ends by itself, nothing left', status == 0 and 'live=0' in said, (status, said[-1500:]))
            self('no sanitizer report', 'runtime error' not in said and 'Sanitizer' not in said, said[-1500:])
        print('%d passed, %d failed' % (self.passed, self.failed))
        sys.exit(1 if self.failed else 0)
