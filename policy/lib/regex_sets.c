#include "policy/lib/regex_sets.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Members are pairs of ends of ranges. RE2's syntax page, "ASCII character classes". */
struct regex_set {
    const char *name;
    const char *pairs;
    size_t pairs_len;
};

#define SET(name, pairs)                                                                           \
    {                                                                                              \
        name, pairs, sizeof(pairs) - 1                                                             \
    }

static const struct regex_set posix_sets[] = {
    SET("alnum", "09AZaz"),
    SET("alpha", "AZaz"),
    SET("ascii", "\0\x7f"),
    SET("blank", "\t\t  "),
    SET("cntrl", "\0\x1f\x7f\x7f"),
    SET("digit", "09"),
    SET("graph", "!~"),
    SET("lower", "az"),
    SET("print", " ~"),
    SET("punct", "!/:@[`{~"),
    SET("space", "\t\r  "),
    SET("upper", "AZ"),
    SET("word", "09AZ__az"),
    SET("xdigit", "09AFaf"),
};

static const struct regex_set digit_escape = SET("d", "09");
static const struct regex_set space_escape = SET("s", "\t\n\f\r  ");
static const struct regex_set word_escape = SET("w", "09AZ__az");

/* The only characters beyond ASCII that differ from an ASCII one in case alone. */
enum { LONG_S = 0x17F, KELVIN = 0x212A, LAST_POINT = 0x10FFFF, ASCII_COUNT = 128 };

const struct regex_set *regex_set_find(struct str posix_name)
{
    for (size_t i = 0; i < sizeof posix_sets / sizeof posix_sets[0]; i++) {
        if (str_is(posix_name, posix_sets[i].name)) {
            return &posix_sets[i];
        }
    }
    return NULL;
}

const struct regex_set *regex_set_of_escape(int letter)
{
    switch (letter) {
    case 'd':
        return &digit_escape;
    case 's':
        return &space_escape;
    case 'w':
        return &word_escape;
    default:
        return NULL;
    }
}

static void mark_members(const struct regex_set *set, bool fold, bool members[ASCII_COUNT])
{
    for (size_t i = 0; i + 1 < set->pairs_len; i += 2) {
        for (int c = set->pairs[i]; c <= set->pairs[i + 1]; c++) {
            members[c] = true;
        }
    }
    for (int c = 'a'; fold && c <= 'z'; c++) {
        bool either = members[c] || members[c - 'a' + 'A'];
        members[c] = either;
        members[c - 'a' + 'A'] = either;
    }
}

static size_t write_range(uint32_t first, uint32_t last, char *out, size_t room)
{
    int n = first == last ? snprintf(out, room, "\\x{%x}", first)
                          : snprintf(out, room, "\\x{%x}-\\x{%x}", first, last);
    return n > 0 && (size_t)n < room ? (size_t)n : 0;
}

size_t regex_set_write(const struct regex_set *set, bool negated, bool fold, char *out)
{
    static const uint32_t ends[] = {LONG_S - 1, LONG_S, KELVIN - 1, KELVIN, LAST_POINT};
    bool members[ASCII_COUNT] = {false};
    uint32_t first = 0;
    bool inside = false; /* a range that began at `first` is open */
    size_t len = 0;
    mark_members(set, fold, members);
    /* Each ASCII character and each stretch beyond, then one step to close the last range. */
    for (size_t i = 0; i <= ASCII_COUNT + sizeof ends / sizeof ends[0]; i++) {
        size_t stretch = i - ASCII_COUNT;
        bool is_end = i == ASCII_COUNT + sizeof ends / sizeof ends[0];
        uint32_t begin = (uint32_t)i;
        if (i > ASCII_COUNT) {
            begin = ends[stretch - 1] + 1;
        }
        bool is_member = false;
        if (i < ASCII_COUNT) {
            is_member = members[i];
        } else if (!is_end && fold) {
            is_member = (ends[stretch] == LONG_S && members['s']) ||
                        (ends[stretch] == KELVIN && members['k']);
        }
        bool wanted = !is_end && is_member != negated;
        if (inside && !wanted) {
            len += write_range(first, begin - 1, out + len, REGEX_SET_BYTES_MAX - len);
        } else if (!inside && wanted) {
            first = begin;
        }
        inside = wanted;
    }
    return len;
}

static const char categories[] = " Any C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No "
                                 "P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs ";

static const char scripts[] =
    " Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak "
    "Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian "
    "Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot "
    "Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs "
    "Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi "
    "Gurmukhi Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited "
    "Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi Kayah_Li "
    "Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Lao Latin Lepcha Limbu Linear_A "
    "Linear_B "
    "Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi "
    "Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi "
    "Mongolian Mro Multani Myanmar Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu "
    "Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Old_Hungarian Old_Italic Old_North_Arabian Old_Permic "
    "Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya "
    "Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan "
    "Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese "
    "Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut "
    "Telugu "
    "Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi "
    "Zanabazar_Square ";

/* True when the name is one of the words of a list that begins and ends with a space. */
static bool is_listed(const char *words, struct str name)
{
    for (const char *at = words; at[1]; at = strchr(at + 1, ' ')) {
        struct str rest = str_from(at + 1);
        if (str_starts_with(rest, name) && rest.ptr[name.len] == ' ') {
            return true;
        }
    }
    return false;
}

enum regex_property regex_property_find(struct str name, bool *ret_folds)
{
    /* U+0345, a mark, is the capital of a letter; the other categories keep to themselves. */
    if (name.len > 0 && is_listed(categories, name)) {
        *ret_folds = name.ptr[0] == 'L' || name.ptr[0] == 'M';
        return REGEX_PROPERTY_CATEGORY;
    }
    *ret_folds = true;
    return name.len > 0 && is_listed(scripts, name) ? REGEX_PROPERTY_SCRIPT
                                                    : REGEX_PROPERTY_UNKNOWN;
}
