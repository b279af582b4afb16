#include "runtime/launch/Fail.h"
#include "runtime/program/Log.h"

#include <gtest/gtest.h>

using namespace echelon::runtime;

namespace {

// Plain text in any language stays as it is.
TEST(Printable, LeavesPlainText) {
  const std::string plain = "a b\"'\\%s $(x) `y` <b> caf\u00e9 \u4e16\u754c \U0001f642";
  EXPECT_EQ(printable(plain), plain);
}

// What a terminal obeys, what turns or hides text and what is not UTF-8 is spelled out.
TEST(Printable, SpellsOutTheRest) {
  EXPECT_EQ(printable("\x1b[31mred\x1b[0m\a\r\x7f"), "\\x1b[31mred\\x1b[0m\\x07\\x0d\\x7f");
  EXPECT_EQ(printable("\xc2\x9b\x33\xc2\x85"), "\\u009b3\\u0085");
  EXPECT_EQ(printable("\u202etxt.hce\u202c \u2066\u2069\u200f"), "\\u202etxt.hce\\u202c \\u2066\\u2069\\u200f");
  EXPECT_EQ(printable("a\u200bb\u00ad\ufeff\u2028\U000e0041"), "a\\u200bb\\u00ad\\ufeff\\u2028\\U000e0041");
  EXPECT_EQ(printable("\x9b\x33\xff"), "\\x9b3\\xff");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");                              // cut off
  EXPECT_EQ(printable("\xc0\xaf \xed\xa0\x80"), "\\xc0\\xaf \\xed\\xa0\\x80"); // overlong, a surrogate
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
}

// A name is one line; in a message a line end stays where the next line is indented, so that no name begins a line.
TEST(Printable, LineEnds) {
  EXPECT_EQ(printable("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(printable("model differs:\n  now: a\nechelon: b", Lines::Indented),
            "model differs:\n  now: a\\nechelon: b");
  EXPECT_EQ(printable("x.cpp:1\n\ty\x1b\n", Lines::Kept), "x.cpp:1\n\ty\\x1b\n");
}

// A log is JSON whatever the names in it.
TEST(Printable, Json) { EXPECT_EQ(quoted("a\"b\\c\n\x1b</script>"), "\"a\\\"b\\\\c\\u000a\\u001b</script>\""); }

// What ends a program is told in plain characters.
TEST(Printable, Failing) {
  EXPECT_EXIT(fail("cannot read \"\x1b]0;x\a\nechelon: fine\""), testing::ExitedWithCode(4),
              "echelon: cannot read \"\\\\x1b\\]0;x\\\\x07\\\\nechelon: fine\"");
}

} // namespace
