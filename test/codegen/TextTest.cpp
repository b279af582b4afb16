// Text from outside in programs: every string reads back as it was, no comment takes code in.
#include "codegen/Text.h"

#include <gtest/gtest.h>

using echelon::codegen::commented;
using echelon::codegen::quoted;

namespace {

TEST(Text, Strings) {
  EXPECT_EQ(quoted("data/a b.csv"), R"("data/a b.csv")");
  EXPECT_EQ(quoted("a\"; system(\"x\"); //\\\n\t"), R"("a\"; system(\"x\"); //\\\n\t")");
  EXPECT_EQ(quoted("?"
                   "?/\" ?"
                   "?"
                   "?"),
            R"("?\?/\" ?\?\?")"); // no trigraph
  EXPECT_EQ(quoted("\x1b[1m\r\x7f"), R"("\033[1m\015\177")");
  EXPECT_EQ(quoted(llvm::StringRef("\0007", 2)), R"("\0007")"); // a null character, then 7
  EXPECT_EQ(quoted("\xff\u202ecaf\u00e9"), "\"\\377\\342\\200\\256caf\u00e9\"");
}

TEST(Text, Comments) {
  EXPECT_EQ(commented("mlp.ech:3  h = a\tb # */ \u00e9"), "mlp.ech:3  h = a b # */ \u00e9");
  EXPECT_EQ(commented("a\n#include <b>\r"), "a\\n#include <b>\\x0d");
  EXPECT_EQ(commented("# ends \\ \\\\ "), "# ends");
  EXPECT_EQ(commented("# ends ?"
                      "?/\\ ?"
                      "?/"),
            "# ends");
  EXPECT_EQ(commented("\u202e\xff"), "\\u202e\\xff");
}

// A comment that is cut ends with a whole character, and not with a backslash that stood inside.
TEST(Text, CutComments) {
  EXPECT_EQ(commented("abc\\def", 4), "abc");
  EXPECT_EQ(commented("abc\u00e9def", 4), "abc");
  EXPECT_EQ(commented("abc\u00e9def", 5), "abc\u00e9");
}

} // namespace
