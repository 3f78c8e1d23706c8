"""Compares gateway/api with the published Python bindings (octelium-apis): numbers, types, oneofs,
enums and methods, by program. Run it in a Python that has that package:

    check_schema.py DESCRIPTOR_SET

Ends with "N passed, N failed"."""

import dataclasses
import importlib
import inspect
import re
import sys

import betterproto
from betterproto.lib.google.protobuf import FieldDescriptorProtoLabel as Label
from betterproto.lib.google.protobuf import FieldDescriptorProtoType as Type
from betterproto.lib.google.protobuf import FileDescriptorSet

# Packages that must be whole, and those of which we serve a part.
WHOLE = ["meta", "cordium"]
PARTS = ["core", "auth", "user"]
# Made visible by the server's own messages only as scopes for enums.
SCOPES = {"core": {"device", "devicespec", "devicestatus", "authenticator", "authenticatorspec",
                   "authenticatorstatus", "identityprovider", "identityproviderstatus"}}

file_set = FileDescriptorSet().parse(open(sys.argv[1], "rb").read())
passed = failed = 0


def expect(ok, *what):
    global passed, failed
    passed += ok
    failed += not ok
    if not ok:
        print("FAILED:", *what)


def flat(name):
    """One spelling for `GeoIP`, `geo_ip`, `not_` and `essh_port` of either side."""
    return name.replace("_", "").replace(".", "").lower()


def our_messages(file, package):
    def walk(messages, scope):
        for m in messages:
            name = f"{scope}.{m.name}" if scope else m.name
            yield name, m
            yield from walk(m.nested_type, name)

    return {flat(name): m for name, m in walk(file.message_type, "")}


def our_enums(file):
    result = {flat(e.name): e for e in file.enum_type}

    def walk(messages, scope):
        for m in messages:
            for e in m.enum_type:
                result[flat(f"{scope}.{m.name}.{e.name}")] = e
            walk(m.nested_type, f"{scope}.{m.name}")

    walk(file.message_type, "")
    return result


def their_types(module, base):
    return {
        flat(name): cls
        for name, cls in vars(module).items()
        if inspect.isclass(cls) and cls.__module__ == module.__name__ and issubclass(cls, base)
    }


TYPE_NAMES = {t: re.sub(r"^TYPE_", "", t.name or "").lower() for t in Type}


def their_field(cls, field):
    meta = field.metadata["betterproto"]
    annotation = cls.__annotations__[field.name]
    text = annotation.__name__ if inspect.isclass(annotation) else str(annotation)
    last = re.findall(r"\w+", text)[-1]
    target = {"datetime": "timestamp", "timedelta": "duration"}.get(last, flat(last))
    if meta.map_types:
        return "map", f"{meta.map_types[0]}/{meta.map_types[1]}", None
    is_list = "List[" in text
    wants_target = meta.proto_type in ("message", "enum")
    return meta.proto_type, target if wants_target else "", is_list


def our_field(message, field, package):
    kind = TYPE_NAMES[field.type]
    full = field.type_name.lstrip(".")
    for nested in message.nested_type:
        if nested.options.map_entry and full.endswith("." + nested.name):
            key, value = nested.field
            return "map", f"{TYPE_NAMES[key.type]}/{TYPE_NAMES[value.type]}", None
    target = ""
    if field.type_name:
        target = flat(re.sub(r"^(octelium\.api\.main\.\w+\.v1|google\.protobuf)\.", "", full))
    return kind, target, field.label == Label.LABEL_REPEATED


def check_message(package, name, ours, theirs):
    if not theirs:
        expect(name in SCOPES.get(package, ()), package, name, "is not in the bindings")
        return
    mine = {f.number: f for f in ours.field}
    if name in SCOPES.get(package, ()) and not mine:
        return
    fields = {f.metadata["betterproto"].number: f for f in dataclasses.fields(theirs)}
    expect(set(mine) == set(fields), package, name, "numbers", sorted(mine), sorted(fields))
    groups = {f.metadata["betterproto"].group for f in fields.values()} - {None}
    expect(len(ours.oneof_decl) == len(groups), package, name, "oneofs", groups)
    for number in set(mine) & set(fields):
        a, b = mine[number], fields[number]
        where = f"{package} {name}.{a.name} = {number}"
        expect(flat(a.name) == flat(b.name), where, "is called", b.name)
        x, y = our_field(ours, a, package), their_field(theirs, b)
        expect(x == y, where, "is", x, "there", y)
        group = b.metadata["betterproto"].group or ""
        oneof = ours.oneof_decl[a.oneof_index].name if group and ours.oneof_decl else ""
        expect(flat(oneof) == flat(group), where, "oneof", oneof, group)


def check_enum(package, name, ours, theirs):
    mine = {v.name: v.number for v in ours.value}
    expect(theirs is not None, package, name, "enum is not in the bindings")
    if theirs is not None:
        them = {v.name: v.value for v in theirs}
        expect(mine == them, package, name, mine, them)


def their_methods(module):
    source = inspect.getsource(module)
    return {
        (path, kind)
        for kind, path in re.findall(
            r'self\._(unary_unary|unary_stream|stream_unary|stream_stream)\(\s*"([^"]+)"', source
        )
    }


def our_methods(file):
    for service in file.service:
        for m in service.method:
            kind = ("stream" if m.client_streaming else "unary") + "_" + (
                "stream" if m.server_streaming else "unary")
            yield f"/{file.package}.{service.name}/{m.name}", kind


def check_package(package):
    module = importlib.import_module(f"octelium.api.main.{package}.v1")
    file = next(f for f in file_set.file if f.package == f"octelium.api.main.{package}.v1")
    messages, enums = our_messages(file, package), our_enums(file)
    their_messages = their_types(module, betterproto.Message)
    their_enums = their_types(module, betterproto.Enum)
    for name, m in messages.items():
        if not m.options.map_entry:
            check_message(package, name, m, their_messages.get(name))
    for name, e in enums.items():
        check_enum(package, name, e, their_enums.get(name))
    mine, theirs = set(our_methods(file)), their_methods(module)
    expect(mine <= theirs, package, "methods that the bindings lack", mine - theirs)
    if package in WHOLE:
        expect(theirs <= mine, package, "methods that we lack", theirs - mine)
        expect(set(their_messages) <= set(messages), package, set(their_messages) - set(messages))
        expect(set(their_enums) <= set(enums), package, set(their_enums) - set(enums))


for package_name in WHOLE + PARTS:
    check_package(package_name)
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
