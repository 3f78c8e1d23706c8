"""Writes policy/lib/unicode_case.inc from Python's Unicode database.

A row {first, last, step, delta}: code points first, first + step, ... last map to themselves
plus delta. Run: python3 policy/tools/make_case_table.py > policy/lib/unicode_case.inc
"""
import _sre
import sys
import unicodedata


def simple_lower(text):
    """One character for one: Python's own lower() makes two of U+0130."""
    return chr(_sre.unicode_tolower(ord(text)))


def simple_upper(text):
    """Where upper() makes several of one, the titlecase form is the simple mapping, if it is one."""
    upper = text.upper()
    return upper if len(upper) == 1 else text.title()


def mapping(convert):
    pairs = []
    for code in range(sys.maxunicode + 1):
        if 0xD800 <= code <= 0xDFFF:
            continue
        mapped = convert(chr(code))
        if len(mapped) == 1 and ord(mapped) != code:
            pairs.append((code, ord(mapped) - code))
    return pairs


def rows(pairs):
    result = []
    for code, delta in pairs:
        if result:
            first, last, step, d = result[-1]
            gap = code - last
            if d == delta and gap <= 2 and (step == gap or first == last):
                result[-1] = (first, code, gap, d)
                continue
        result.append((code, code, 1, delta))
    return result


print("/* Unicode %s; made by policy/tools/make_case_table.py. */" % unicodedata.unidata_version)
for name, convert in (("to_lower", simple_lower), ("to_upper", simple_upper)):
    print("static const struct case_row %s[] = {" % name)
    for row in rows(mapping(convert)):
        print("    {0x%X, 0x%X, %d, %d}," % row)
    print("};")
