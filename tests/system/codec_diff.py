"""The C codec against python3-protobuf's wire format and json_format, on random messages and on a
table of texts.

    codec_diff.py TOOL DESCRIPTOR_SET COUNT [MESSAGE...]

TOOL is tests/tools/codec_convert.c. Without MESSAGE every message of the set that is a request, an
answer or a resource is taken in turn. Ends with "N passed, N failed"."""

import json
import math
import random
import struct
import subprocess
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf import duration_pb2, struct_pb2, timestamp_pb2  # noqa: F401 (register them)

TOOL, SET, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])
R = random.Random(20260131)

pool = descriptor_pool.Default()
file_set = descriptor_pb2.FileDescriptorSet.FromString(open(SET, "rb").read())
for file in file_set.file:
    if not file.name.startswith("google/"):
        pool.Add(file)
factory = message_factory.MessageFactory(pool)


def message_class(name):
    return factory.GetPrototype(pool.FindMessageTypeByName(name))


def types_of_the_set():
    if len(sys.argv) > 4:
        return sys.argv[4:]
    return [
        f"{file.package}.{m.name}"
        for file in file_set.file
        if not file.name.startswith(("google/", "protobuf-c/"))
        for m in file.message_type
    ]


tool = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def convert(mode, data, type_name):
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    head = mode.encode() + bytes([len(type_name)]) + type_name.encode()
    tool.stdin.write(head + struct.pack(">I", len(data)) + data)
    tool.stdin.flush()
    ok, n = struct.unpack(">BI", tool.stdout.read(5))
    return bool(ok), tool.stdout.read(n)


def random_int(bits, signed):
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return R.choice([0, 1, low, high, R.randint(low, high), R.randint(0, 1000)])


def random_text():
    return R.choice(
        ["", "a", "yes", "0777", "null", "~", "1.10", "héllo", '"q"\\\n\t\b\f\r\x01\x7f', "日本語😀", " lead",
         "trail ", "a: b", "# c", "- x", "line one\n  line two\n", "no end\nhere", "two\n\n", "\n", "x:", "@at",
         "x" * R.randrange(50), "\u2028\u2029\ufeff</script>", "tab\there\nnext", "!tag", "&a", "*b", "'"]
    )


def random_double():
    return R.choice([0.0, 1.5, -2.25, 1e300, 5e-324, 0.1, math.inf, -math.inf, math.nan, R.random(), 1e20,
                     123456789.0, 2.0**53 + 2])


def random_scalar(f):
    kind = f.type
    if kind == f.TYPE_DOUBLE:
        return random_double()
    if kind == f.TYPE_FLOAT:
        v = R.choice([0.0, 1.5, 0.1, 3.4e38, 1e-45, math.inf, math.nan, R.random()])
        return struct.unpack("f", struct.pack("f", v))[0]
    if kind in (f.TYPE_INT64, f.TYPE_SINT64, f.TYPE_SFIXED64):
        return random_int(64, True)
    if kind in (f.TYPE_UINT64, f.TYPE_FIXED64):
        return random_int(64, False)
    if kind in (f.TYPE_INT32, f.TYPE_SINT32, f.TYPE_SFIXED32):
        return random_int(32, True)
    if kind in (f.TYPE_UINT32, f.TYPE_FIXED32):
        return random_int(32, False)
    if kind == f.TYPE_BOOL:
        return R.random() < 0.5
    if kind == f.TYPE_STRING:
        return random_text()
    if kind == f.TYPE_BYTES:
        return R.randbytes(R.randrange(9))
    return R.choice([0, 1, 2, 77] + [v.number for v in f.enum_type.values])


def fill_value(v, depth=0):
    kind = R.randrange(6 if depth < 3 else 4)
    if kind == 0:
        v.null_value = 0
    elif kind == 1:
        v.number_value = R.choice([0, 1, -1.5, 1e10, R.random()])
    elif kind == 2:
        v.string_value = random_text()
    elif kind == 3:
        v.bool_value = R.random() < 0.5
    elif kind == 4:
        v.struct_value.SetInParent()
        for i in range(R.randrange(3)):
            fill_value(v.struct_value.fields[R.choice(["k", "a b", "1", "yes", "é"]) + str(i)], depth + 1)
    else:
        v.list_value.SetInParent()
        for _ in range(R.randrange(3)):
            fill_value(v.list_value.values.add(), depth + 1)


def fill_duration(m):
    sign = R.choice([1, -1])
    m.seconds = sign * R.choice([0, 1, 315576000000, R.randrange(10**6)])
    if abs(m.seconds) < 315576000000:
        m.nanos = sign * R.choice([0, 1, 500000000, 1000, 999999999])


def fill_timestamp(m):
    m.seconds = R.choice([0, -62135596800, 253402300799, R.randrange(-(10**10), 10**11)])
    m.nanos = R.choice([0, 1, 500000000, 1000, 999999999])


def fill_message(m, depth):
    m.SetInParent()
    name = m.DESCRIPTOR.full_name
    if name == "google.protobuf.Duration":
        fill_duration(m)
    elif name == "google.protobuf.Timestamp":
        fill_timestamp(m)
    elif name == "google.protobuf.Value":
        fill_value(m)
    elif name == "google.protobuf.Struct":
        for i in range(R.randrange(3)):
            fill_value(m.fields["k%d" % i])
    elif name == "google.protobuf.ListValue":
        for _ in range(R.randrange(3)):
            fill_value(m.values.add())
    else:
        fill_fields(m, depth)


def fill_map(m, f):
    key, value = f.message_type.fields_by_name["key"], f.message_type.fields_by_name["value"]
    for _ in range(R.randrange(1, 4)):
        k = random_scalar(key)
        if value.message_type is None:
            getattr(m, f.name)[k] = random_scalar(value)
        else:
            fill_message(getattr(m, f.name)[k], 3)


def fill_fields(m, depth):
    density = 0.35 if depth < 4 else 0.1
    for f in m.DESCRIPTOR.fields:
        if R.random() > density or (f.message_type and depth > 8):
            continue
        if f.message_type and f.message_type.GetOptions().map_entry:
            fill_map(m, f)
        elif f.label == f.LABEL_REPEATED:
            for _ in range(R.randrange(1, 4)):
                if f.message_type:
                    fill_message(getattr(m, f.name).add(), depth + 1)
                else:
                    getattr(m, f.name).append(random_scalar(f))
        elif f.message_type:
            fill_message(getattr(m, f.name), depth + 1)
        else:
            setattr(m, f.name, random_scalar(f))


def canonical(m):
    return m.SerializeToString(deterministic=True)


def same_json(a, b):
    def normal(x):
        if isinstance(x, dict):
            return {k: normal(v) for k, v in x.items()}
        if isinstance(x, list):
            return [normal(v) for v in x]
        if isinstance(x, (int, float)) and not isinstance(x, bool):
            return float("%.6g" % x)
        return x

    return normal(json.loads(a)) == normal(json.loads(b))


passed = failed = 0


def expect(ok, *what):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        if failed < 20:
            print("FAILED:", *[str(w)[:600] for w in what])


def check_message(name, cls):
    m = cls()
    fill_fields(m, 0)
    wire = m.SerializeToString()
    for mode in "rc":
        ok, back = convert(mode, wire, name)
        expect(ok and canonical(cls.FromString(back)) == canonical(m), "wire", mode, name, back, m)
    theirs = json_format.MessageToJson(m)
    ok, ours = convert("w", wire, name)
    expect(ok and same_json(ours, theirs), "to JSON", name, ours, theirs)
    # json_format does not keep every message through its own JSON, so that is what we compare with.
    kept = canonical(json_format.Parse(theirs, cls()))
    expect(ok and canonical(json_format.Parse(ours, cls())) == kept, "our JSON read by theirs", name, ours)
    ok, back = convert("s", theirs, name)
    expect(ok and canonical(cls.FromString(back)) == kept, "their JSON read by ours", name, back, theirs)
    ok, yaml = convert("Y", wire, name)
    ok2, back = convert("y", yaml, name) if ok else (False, b"")
    expect(ok2 and canonical(cls.FromString(back)) == kept, "YAML", name, back, yaml.decode())


# Texts for test.kitchen.Kitchen. Where we are stricter than json_format, on purpose, the reason stands beside.
TABLE = """
{} | {"i32":1} | {"i32":"1"} | {"i32":1.0} | {"i32":1e3} | {"i32":1.5} | {"i32":2147483648} | {"i32":-2147483648}
{"u32":-1} | {"i64":"9223372036854775807"} | {"i64":9007199254740993} | {"i64":"9223372036854775808"}
{"u64":"18446744073709551615"} | {"u64":18446744073709551615} | {"i32":null} | {"i32":" 1"} | {"i32":""}
{"i32":"0x1"} | {"i32":true} | {"i32":01} | {"flag":"true"} | {"flag":1} | {"text":1} | {"text":"\\ud83d\\ude00"}
{"single":1e40} | {"single":"NaN"} | {"real":"-Infinity"} | {"data":"AQID"} | {"data":"AQI="}
{"data":"-_8="} | {"color":"COLOR_RED"} | {"color":1} | {"color":99} | {"color":"NOPE"} | {"color":"color_red"}
{"color":-1} | {"i64s":[1,"2"]} | {"i64s":null} | {"i64s":[null]} | {"i64s":1} | {"inner":null} | {"inner":{}}
{"inner":{"nope":1}} | {"nope":1} | {"optI32":0} | {"optI32":null} | {"optText":""} | {"optFlag":false} | {"optInner":{}}
{"oneText":"a","oneI64":"1"} | {"oneText":"a","oneI64":null} | {"oneText":""} | {"labels":{"a":"b"}} | {"labels":{"a":1}}
{"labels":{"a":null}} | {"byNumber":{"1":{}}} | {"byNumber":{"x":{}}} | {"byFlag":{"true":"AQ=="}} | {"byFlag":{"yes":"AQ=="}}
{"values":{"a":null,"b":[1,{"c":"d"}]}} | {"values":null} | {"duration":"1.5s"} | {"duration":"-0.5s"} | {"duration":"1s "}
{"duration":"1"} | {"duration":"315576000001s"} | {"duration":{"seconds":1}} | {"time":"2024-02-29T12:00:00Z"}
{"time":"2023-02-29T12:00:00Z"} | {"time":"2024-01-01T00:00:00+01:00"} | {"time":"2024-01-01T00:00:00.123456789Z"}
{"time":"2024-01-01T00:00:00"} | {"time":"10000-01-01T00:00:00Z"} | {"time":"2024-01-01T24:00:00Z"}
{"object":{"a":{"b":[1,2,{"c":null}]}}} | {"object":[]} | {"value":null} | {"value":"x"} | {"value":[]} | {"list":[1,"a",null]}
{"list":{}} | {"otherName":"x"} | {"renamed":"x"} | {"snakeCase2X":1} | {"snake_case_2_x":1} | {"i32":1,"i32":2}
{ | {"a":1,} | {} x | null | "x" | {'i32':1} | {"inners":[{},{"name":"x"}]} | {"inners":[null]} | {"colors":["COLOR_RED",2]}
"""


def check_table(name, cls):
    for text in [t.strip() for line in TABLE.strip().splitlines() for t in line.split(" | ")]:
        try:
            theirs = canonical(json_format.Parse(text, cls()))
        except Exception:
            theirs = None
        ok, wire = convert("s", text, name)
        ours = canonical(cls.FromString(wire)) if ok else None
        expect(ours == theirs, "table", text, "theirs:", theirs, "ours:", wire)
    refused = ['{"inner":[]}', '{"i32":1,"i_32":2}', "[]", "", '{"text":"\\u0000"}', '{"text":"\\ud83d"}', '{"text":"a\nb"}',
               '{"self":' * 150 + "{}" + "}" * 150, '{"value":' + "[" * 200 + "]" * 200 + "}", '{"data":"!!"}',
               '{"data":"A"}', '{"real":1e400}', '{"duration":"1.1234567891s"}', '{"time":"2024-01-01 00:00:00Z"}']
    for text in refused:
        ok, answer = convert("s", text, name)
        expect(not ok, "refused", text, answer)


def main():
    names = types_of_the_set()
    for i in range(COUNT):
        name = names[i % len(names)]
        check_message(name, message_class(name))
    if "test.kitchen.Kitchen" in names:
        check_table("test.kitchen.Kitchen", message_class("test.kitchen.Kitchen"))
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
