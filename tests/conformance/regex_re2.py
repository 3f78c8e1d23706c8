"""What RE2 makes of patterns and texts: regex_re2.py [--seed N] [--count N] > FILE

The patterns are each construct of RE2's syntax page, supported or not, in a few surroundings, and
random compositions of them. run_regex compares the library with the lines written here. Needs the
package google-re2, RE2 itself behind a thin binding."""
import argparse
import json
import random

import re2

OPTIONS = re2.Options()
OPTIONS.log_errors = False

CATEGORIES = ("C Cc Cf Co L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps "
              "S Sc Sk Sm So Z Zl Zp Zs").split()
SCRIPTS = "Greek Latin Cyrillic Han Hebrew Common Inherited Thai Old_Italic Canadian_Aboriginal Any".split()
POSIX = "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit".split()

ATOMS = (
    [".", "x", "y", "ab", "é", "ß", "ſ", "k", "K", "Å", "Σ", "ς", " ", "-", "_", "7", "\\d", "\\D", "\\w", "\\W", "\\s",
     "\\S", "\\pN", "\\PN", "\\pL", "\\a", "\\f", "\\t", "\\n", "\\r", "\\v", "\\*", "\\.", "\\-", "\\_", "\\/", "\\123",
     "\\012", "\\0", "\\01", "\\x7F", "\\x61", "\\x{e9}", "\\x{10FFFF}", "\\x{0061}", "\\Qa.b\\E", "\\Q*\\E",
     "\\Qab", "\\Q\\E", "{", "}", "]", "{,3}", "{a}", "a{,3}", "x{}", "x{-}", "x=", "re&", "@", "%", "#", "~", "/",
     "\u2028", "\u0345", "İ", "ı"]
    + [f"\\p{{{c}}}" for c in CATEGORIES + SCRIPTS]
    + [f"\\P{{{c}}}" for c in CATEGORIES[:8] + SCRIPTS[:4]]
    + ["\\p{^Lu}", "\\P{^Greek}"]
)
ANCHORS = ["^", "$", "\\A", "\\z", "\\b", "\\B"]
ITEMS = (
    ["a", "z", "é", "k", "s", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "a-z", "A-Z", "0-9", "а-я", "a-", "\\]", "\\[", "\\^",
     "\\-", "\\\\", ".", "*", "$", "[", "&", "&&", "--", "|", "(", "\\x61-\\x63", "\\x{370}-\\x{3ff}", "\\101", "\\n", "\\t",
     "\\v", "\\p{Lu}", "\\pL", "\\P{Greek}", " ", "!-/", "[:", ":]", "\\a"]
    + [f"[:{c}:]" for c in POSIX]
    + [f"[:^{c}:]" for c in POSIX]
)
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{0}", "{1,}", "{0,2}", "{1,3}?", "{2,}?", "{2}?", "{0,0}"]
UNSUPPORTED = (
    "(a)\\1|(?=a)|(?!a)|(?<=a)|(?<!a)|(?>a)|a++|a*+|a?+|a{2}+|a{1,2}+|(?R)|(?0)|(?1)|(?+1)|(?-1)|(?&n)|(?P>n)|(?P=n)|"
    "(?(1)a)|(?(1)a!b)|(?!a)|(?C)|(*ACCEPT)|(*COMMIT)|(*F)|(*FAIL)|(*MARK)|(*PRUNE)|(*SKIP)|(*THEN)|(*ANY)|(*CR)|"
    "(*CRLF)|(*LF)|(*UTF)|(*UCP)|(*LIMIT_MATCH=1)|(*BSR_UNICODE)|(?#text)|(?'n'a)|(?{code})|(??{code})|(?x)a|(?n)a|"
    "(?J)a|(?^)a|(?ia)|(?a)|\\G|\\Z|\\K|\\X|\\R|\\N|\\N{x}|\\h|\\H|\\V|\\e|\\cA|\\cK|\\o{12}|\\g1|\\g{1}|\\g{-1}|\\g<n>|"
    "\\k<n>|\\k'n'|\\lX|\\ux|\\L|\\U|\\u0061|\\i|\\I|\\F|\\O|\\8|\\9|\\1|\\x|\\x4|\\x{}|\\x{110000}|\\x{g}|\\é|\\ |\\p|\\p{|"
    "\\p{}|\\pX|\\p{IsL}|\\p{L&}|\\p{LC}|\\p{Cn}|\\p{Xan}|\\p{Xwd}|\\p{Xsp}|\\p{Grek}|\\p{greek}|\\p{lu}|\\p{Alphabetic}|"
    "\\p{White_Space}|\\p{Script=Greek}|\\p{sc:Greek}|\\p{scx:Greek}|\\p{Uppercase}|\\p{ASCII}|\\p{bidi_class:L}|"
    "[\\b]|[\\Qa\\E]|[\\A]|[\\d-z]|[a-\\d]|[z-a]|[[:foo:]]|[[:alpha:]-z]|[a|[]|[^]|[|(|)|a)|*|+a|a**|a+*|a?{2}|a{2}{3}|"
    "a*??|a|*|(*)|(?:*)|^*|$*|\\b+|(?i)*|(?P<n>|(?P<n|(?P<1n>a)|(?P<>a)|(?P<n-m>a)|(?<n>a)|(?P<n>a)|(?P<n>a)(?P<n>b)|"
    "a{1001}|a{1000}|a{0,1001}|a{1001,}|a{2,1}|(a{100}){11}|(a{100}){10}|((a{10}){10}){11}|(?:a{2}){3}|a{01}|a{ 1}|"
    "a{1, 2}|(?i-)a|(?-)a|(?--i)a|(?)a|(?:)|(?i)|(?i:)|()|(|a)|(a|)|||a|\\pé|(?i-i)a|(?ii)a|(?imsU)a|(?-imsU)a|"
    "[[.a.]]|[[=a=]]|[:alpha:]|[a-]|[-a]|[]a]|[^]a]|[]-a]|[a-c-e]|[--/]|[+--]|[\\--/]|[a\\-z]|[\\w-]|[-\\w]"
)
TEXTS = ["", "a", "b", "ab", "abab", "aab", "xyz", "A", "k", "K", "\u212a", "s", "ſ", "S", "é", "É", "ß", "ẞ", "Σ", "σ", "ς", "Å",
         "\u212b", "İ", "ı", "i", "I", "\n", "a\n", "\na", "a\nb", "a\n\n", "\r\n", "\t", "\v", "\f", "\x07", " ", "-", "_", "7", "٣",
         "½", "Ⅷ", "α", "Ω", "я", "中", "א", "e\u0301", "\u0345", "\u2028", "\u00a0", "\U0001d400", "\U0001f600", "\ue000",
         "a.b", "a*b", "axb", "S", "{", "a{,3}", "]", "[", "^", "\\", "ab 12 _-é", "foo bar\nfoo", "aaa", "aaaa", "xx yy", "\x7f",
         "\x01", "𐌀", "ᐁ", "ก", "\u3007", "\u30fc", "ǅ", "ʰ", "҈", "\u200d", "Kk\u212aſsS", "ΣΑΣ σας"]


def some_class(r):
    items = "".join(r.choice(ITEMS) for _ in range(r.randint(1, 3)))
    return "[" + r.choice(["", "", "^"]) + items + "]"


def some_flags(r):
    return "(?" + r.choice(["i", "m", "s", "U", "im", "is", "i-s", "-i", "m-U", "sU"])


def some_pattern(r, depth):
    parts = []
    for _ in range(r.randint(1, 3)):
        kind = r.random()
        if kind < 0.5 or depth == 0:
            parts.append(r.choice(ATOMS) if r.random() < 0.7 else some_class(r))
        elif kind < 0.6:
            parts.append(r.choice(ANCHORS))
            continue
        elif kind < 0.68:
            parts.append(some_flags(r) + ")")
            continue
        else:
            opening = r.choice(["(", "(", "(?:", "(?P<n>", some_flags(r) + ":"])
            parts.append(opening + some_pattern(r, depth - 1) + ")")
        if r.random() < 0.45:
            parts[-1] += r.choice(QUANTIFIERS)
    if depth > 0 and r.random() < 0.25:
        parts.append("|" + r.choice(["", some_pattern(r, depth - 1)]))
    return "".join(parts)


def patterns(r, count):
    singles = ATOMS + ANCHORS + UNSUPPORTED.split("|") + ["a|b", "|a", "a|", "(?|a)", "(|a)", "(a|)"]
    singles += [f"[{i}]" for i in ITEMS] + [f"[^{i}]" for i in ITEMS]
    for single in singles:
        yield single
        for surrounding in ("^(?:%s)$", "(?i)%s", "(?i)^%s$", "(?m)^%s$", "x%sy", "(%s)+", "(?s)%s", "(?U)%s+"):
            yield surrounding % single
    for _ in range(count):
        yield some_pattern(r, r.randint(0, 3))


def offsets(match, text):
    if match is None:
        return None
    flat = []
    for group in range(match.re.groups + 1):
        for at in match.span(group):
            flat.append(at if at < 0 else len(text[:at].encode()))
    return flat


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=3000)
    arguments = parser.parse_args()
    r = random.Random(arguments.seed)
    for pattern in dict.fromkeys(patterns(r, arguments.count)):
        texts = r.sample(TEXTS, 6) + ["".join(r.choice(TEXTS) for _ in range(4))]
        if "\\B" in pattern:
            # RE2 finds \B between the bytes of one character.
            texts = [t for t in texts if t.isascii()]
        try:
            compiled = re2.compile(pattern, OPTIONS)
        except re2.error:
            print(json.dumps([pattern, [], None]))
            continue
        print(json.dumps([pattern, texts, [offsets(compiled.search(t), t) for t in texts]]))


main()
