"""What is put wherever a name, a string or a path can appear."""
import os

PAYLOADS = {
    "quote": b'a"b',
    "apostrophe": b"a'b",
    "backslash": b"a\\",
    "backslashes": b"a\\\\",
    "escaped quote": b'a\\"; PWNED(); //',
    "newline": b"a\nFAKED: all is well\n",
    "newline include": b"a\n#include \"PWNED\"\n",
    "carriage return": b"all is well\rFAKED: b",
    "tab": b"a\tb",
    "comment end": b"a*/ PWNED /*",
    "line comment": b"a // PWNED",
    "trigraph backslash": b"a??/",
    "trigraph quote": b'a??/"; PWNED(); //',
    "trigraph middle": b"a??/n??'b??!",
    "format": b"%s%s%n%99999d%p",
    "system": b'";system("touch PWNED");//',
    "brace": b'"}); PWNED(); p.stored.push_back({"',
    "raw string": b')"; PWNED(); R"(',
    "substitution": b"$(touch PWNED)",
    "backticks": b"`touch PWNED`",
    "semicolon": b"a; touch PWNED",
    "pipe": b"| touch PWNED",
    "ampersand": b"a && touch PWNED &",
    "variable": b"${IFS}$HOME$0",
    "redirect": b"a > PWNED",
    "glob": b"*?[a-z]{a,b}~",
    "blanks": b"  a  b  ",
    "colour": b"\x1b[31mred\x1b[0m",
    "cursor": b"\x1b[2J\x1b[1;1HFAKED",
    "title": b"\x1b]0;PWNED\x07",
    "link": b"\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": b"\x1b]52;c;UFdORUQ=\x07",
    "device control": b"\x1bP$q\"p\x1b\\",
    "C1": b"\x9b31mred",
    "C1 in UTF-8": b"\xc2\x9b31m\xc2\x9d52;c;UFdO\xc2\x9c",
    "bell": b"a\x07\x08\x08b",
    "delete": b"a\x7fb",
    "bidi": "\u202etxt.hce\u202c".encode(),
    "isolate": "a\u2066b\u2069\u200f".encode(),
    "zero width": "a\u200bb\u200dc\u2060\ufeff".encode(),
    "line separator": "a\u2028FAKED\u2029b".encode(),
    "tags": "a\U000e0041\U000e007f".encode(),
    "invalid UTF-8": b"a\xff\xfe\xc0\xafb",
    "cut UTF-8": b"ab\xe2\x82",
    "overlong": b"a\xf0\x80\x80\xafb",
    "surrogate": b"a\xed\xa0\x80b",
    "markup": b"</script><img src=x onerror=alert(1)>",
    "json": b'","evil":"PWNED',
    "json escape": b"a\\u0000\\",
    "json object": b'{"step": 1}',
    "long": b"a" * 5000,
    "longest name": b"n" * 64,
    "name too long": b"n" * 65,
    "up": b"../../../../../../tmp/PWNED-up",
    "absolute": b"/tmp/PWNED-absolute",
    "option": b"-rf",
    "long option": b"--help",
    "options file": b"@PWNED",
    "equals": b"--log=PWNED",
    "dot": b".",
    "dots": b"..",
    "slashes": b"///",
    "empty": b"",
    "accents": "é世界🙂".encode(),
    "hash": b"a # b",
    "percent": b"100%",
}

# Words of C++, macros, what programs and the language use themselves, and what collides once it is a C++ name.
NAMES = """main EOF int std NULL NAN INFINITY errno stdin stdout assert unix linux class delete new operator template
typename this throw try union using virtual void auto goto namespace and or_eq xor compl r p lr math echelon runtime step
forward backward update describe Rank Program Stored Sum messages wait fill memcpy exp size_t int64_t uint8_t float double
char8_t co_await requires final override max min abs sin y0 j1 M_PI I complex signed restrict _Exit __LINE__ __FILE__
__attribute__ _ a__b a_b a_b_2 d_x x d_d_x message gathered own_part t number first head_w head w step_2 printf system exit
loss accuracy eval_loss grad_norm train evaluate nn import model block
data split layout batch argv argc label image ranks""".split()


def is_file_name(payload):
    """Whether a file can have the name."""
    return payload not in (b"", b".", b"..") and b"/" not in payload and b"\0" not in payload and len(payload) <= 240


def in_string(payload):
    """The payload as a string of a spec, as well as the language's escapes can say it."""
    table = {ord('"'): b'\\"', ord("\\"): b"\\\\", ord("\n"): b"\\n", ord("\t"): b"\\t"}
    return b'"' + b"".join(table.get(c, bytes([c])) for c in payload) + b'"'


def outside_paths():
    """What must not be there after any case."""
    return [p for p in ("/tmp/PWNED-up", "/tmp/PWNED-absolute", os.path.expanduser("~/PWNED")) if os.path.lexists(p)]
