"""What must hold of every output, whatever went in: of terminals, of JSON, of generated C++."""
import codecs
import functools
import json
import re

# An output line that begins with this was written by a payload, not by Echelon.
FAKE = "FAKED"
# A file or an identifier of this name outside of literals and comments: a payload was executed.
SENTINEL = "PWNED"

BIDI = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
INVISIBLE = {0xAD, 0x180E, 0xFEFF, 0x2028, 0x2029, *range(0x200B, 0x200E), *range(0x2060, 0x2066), *range(0xE0000, 0xE1000)}


def terminal(output, whole_text=False):
    """What is wrong with bytes that go to a terminal; None: nothing. whole_text: they are the spec itself (fmt), in
    which characters without width may appear."""
    try:
        text = codecs.decode(output, "utf-8", "strict")
    except UnicodeDecodeError as error:
        return f"not UTF-8: {output[max(0, error.start - 30):error.end + 30]!r}"
    for at, c in enumerate(text):
        code = ord(c)
        if (code < 0x20 and c not in "\n\t") or 0x7F <= code < 0xA0:
            return f"control character {code:#x} in {text[max(0, at - 30):at + 30]!r}"
        if code in BIDI and not (whole_text and code in (0x061C, 0x200E, 0x200F)):
            return f"bidi control {code:#x} in {text[max(0, at - 30):at + 30]!r}"
        if code in INVISIBLE and not whole_text:
            return f"invisible character {code:#x} in {text[max(0, at - 30):at + 30]!r}"
    before = ""
    for line in text.split("\n"):
        quoted = re.match(r".*:\d+:\d+: (error|warning|note)", before)  # the line of the spec that a diagnostic shows
        before = line
        if line.startswith(FAKE) and not quoted:
            return f"a payload began a line: {line!r}"
    return None


def colourless(output):
    """Output to a terminal without the commands that are Echelon's own: colours, and the progress line's repainting."""
    return re.sub(rb"\x1b\[(0|1|1;3[0-9])m|\x1b\[K|\r", b"", output)


def json_text(text):
    """What is wrong with a JSON text; None: nothing."""
    try:
        json.loads(text.decode("utf-8", "strict"))
    except (ValueError, UnicodeDecodeError) as error:
        return f"not JSON: {error}: {text[:200]!r}"
    return None


def json_lines(text):
    for line in text.split(b"\n"):
        wrong = json_text(line) if line else None
        if wrong:
            return wrong
    return None


TRIGRAPHS = {"=": "#", "/": "\\", "'": "^", "(": "[", ")": "]", "!": "|", "<": "{", ">": "}", "-": "~"}


@functools.lru_cache(4)
def tokens(text, trigraphs):
    """The tokens of C++ text, as the language's translation phases find them: [(kind, text)] with kind "code" or
    "string"; comments are left out. With `trigraphs` as before C++17."""
    if trigraphs:
        text = re.sub(r"\?\?([=/'()!<>-])", lambda m: TRIGRAPHS[m[1]], text)
    text = re.sub(r"\\[ \t\f\v\r]*\n", "", text)  # gcc goes on over blanks after the backslash, too
    found, at = [], 0
    pattern = re.compile(
        r'(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
        r"|(?P<space>\s+)|(?P<code>\w+|[^\w\s])", re.S)
    while at < len(text):
        match = pattern.match(text, at)
        if match.lastgroup in ("string", "code"):
            found.append((match.lastgroup, match[0]))
        at = match.end()
    return found


def value_of(literal):
    """The bytes of a C++ string literal."""
    simple = {"n": b"\n", "t": b"\t", "r": b"\r", '"': b'"', "\\": b"\\", "?": b"?", "'": b"'"}
    out = b""
    for part in re.finditer(r"\\([0-7]{1,3})|\\(.)|([^\\]+)", literal[1:-1], re.S):
        out += bytes([int(part[1], 8)]) if part[1] else simple[part[2]] if part[2] else part[3].encode()
    return out


def cpp(text, like=None, holds=None):
    """What is wrong with a generated program; None: nothing. `like`: a program that it must be in all but its literals;
    `holds`: bytes that must be the value of one of them."""
    wrong = terminal(text)
    if wrong:
        return wrong
    text = text.decode()
    for trigraphs in (False, True):
        own = tokens(text, trigraphs)
        code = [t for kind, t in own if kind == "code"]
        if any(SENTINEL in t for t in code):
            return f"payload text outside of literals and comments (trigraphs: {trigraphs})"
        if like is not None:
            other = [t for kind, t in tokens(like.decode(), trigraphs) if kind == "code"]
            if code != other:
                at = next((i for i, (a, b) in enumerate(zip(code, other)) if a != b), min(len(code), len(other)))
                return f"other code than of a harmless spec (trigraphs: {trigraphs}): {code[at:at + 8]} for {other[at:at + 8]}"
        if holds is not None and not any(kind == "string" and holds in value_of(t) for kind, t in own):
            return f"no literal has the value {holds!r} (trigraphs: {trigraphs})"
    return None


def self_test():
    """The judge finds what it is there for."""
    assert terminal(b"a\x1b[31m") and terminal(b"\xff") and terminal("\u202e".encode()) and terminal(b"\xc2\x9b")
    assert terminal(b"x\nFAKED: fine") and terminal(b"a\r") and not terminal(b"a\\x1b\n\tb \xc3\xa9")
    assert json_text(b'{"a": "\x01"}') and not json_text(b'{"a": "\\u0001"}')
    assert cpp(b"// a\\\nint y;\nint x;", b"// a\nint y;\nint x;")  # swallowed code
    assert cpp(b"// a\nPWNED();") and not cpp(b'// PWNED\nf("PWNED", /* PWNED */ 1);')
    assert cpp(b"// a?" b"?/\nint y;\nint x;", b"// a\nint y;\nint x;")
    assert cpp(b'f("\\303\\251\\"?\\?/");', holds='é"??/'.encode()) is None
