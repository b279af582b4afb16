#include "runtime/launch/Terminal.h"

#include <gtest/gtest.h>

#include <cstdlib>

using namespace echelon::runtime;

namespace {

// Wide characters take two columns, marks go onto the letter before them.
TEST(Terminal, ColumnsOfCharacters) {
  EXPECT_EQ(columnsOf(std::string_view("step 1")), 6u);
  EXPECT_EQ(columnsOf(std::string_view("caf\u00e9")), 4u);
  EXPECT_EQ(columnsOf(std::string_view("cafe\u0301")), 4u);
  EXPECT_EQ(columnsOf(std::string_view("\u4e16\u754c")), 4u);
  EXPECT_EQ(columnsOf(std::string_view("\uff21\U0001f642")), 4u);
}

// A character is taken whole or not at all.
TEST(Terminal, CutsBetweenCharacters) {
  EXPECT_EQ(cutTo(4, "abcdef"), "abcd");
  EXPECT_EQ(cutTo(3, "\u4e16\u754c"), "\u4e16");
  EXPECT_EQ(cutTo(4, "cafe\u0301s"), "cafe\u0301");
  EXPECT_EQ(cutTo(9, "abc"), "abc");
  EXPECT_EQ(cutTo(0, "abc"), "");
}

// What matters least goes first; what is left keeps its order.
TEST(Terminal, FitsTheMostImportant) {
  const std::vector<LinePart> parts = {
      {"step 7", 0}, {" loss 2", 1}, {" lr 3", 3}, {" of_pictures 4", 4}, {" left", 2}};
  EXPECT_EQ(fitInto(100, parts), "step 7 loss 2 lr 3 of_pictures 4 left");
  EXPECT_EQ(fitInto(37, parts), "step 7 loss 2 lr 3 of_pictures 4 left");
  EXPECT_EQ(fitInto(36, parts), "step 7 loss 2 lr 3 left");
  EXPECT_EQ(fitInto(20, parts), "step 7 loss 2 left");
  EXPECT_EQ(fitInto(13, parts), "step 7 loss 2");
  EXPECT_EQ(fitInto(12, parts), "step 7 left");
  EXPECT_EQ(fitInto(3, parts), "ste");
}

// Lines are broken between parts, and between words only where a part is wider than a line.
TEST(Terminal, WrapsBetweenParts) {
  const std::vector<std::string> parts = {"training t: ", "100 parameters, ", "2 ranks"};
  EXPECT_EQ(wrapTo(80, parts), "training t: 100 parameters, 2 ranks");
  EXPECT_EQ(wrapTo(35, parts), "training t: 100 parameters, 2 ranks");
  EXPECT_EQ(wrapTo(34, parts), "training t: 100 parameters,\n  2 ranks");
  EXPECT_EQ(wrapTo(20, parts), "training t:\n  100 parameters,\n  2 ranks");
  EXPECT_EQ(wrapTo(14, parts), "training t:\n  100\n  parameters,\n  2 ranks");
  EXPECT_EQ(wrapTo(10, {"in \"/a/path/without/a/space\""}), "in\n  \"/a/path/without/a/space\"");
}

// What is no terminal has the width that the environment says.
TEST(Terminal, WidthWithoutATerminal) {
  setenv("COLUMNS", "55", 1);
  EXPECT_EQ(terminalColumns(-1), 55u);
  setenv("COLUMNS", "wide", 1);
  EXPECT_EQ(terminalColumns(-1), 80u);
  unsetenv("COLUMNS");
  EXPECT_EQ(terminalColumns(-1), 80u);
}

} // namespace
