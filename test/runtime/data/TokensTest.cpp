// text, tokens and next_token.
#include "DataFixture.h"

#include <cstring>
#include <set>

namespace echelon::runtime::test {
namespace {

// Window i starts at i * length, labels one further; the last floor(holdout * windows) are held out.
TEST_F(Data, NextTokenWindows) {
  write("t.txt", "abcdefghijk"); // 11 bytes: windows of 3 at 0, 3, 6 (9 would need a label at 12)
  auto stream = open(nextToken(0.34), {{"tokens", {3}, kInt, 256}, {"labels", {3}, kInt, 256}});
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->trainSize(), 2);
  EXPECT_EQ(stream->heldOutSize(), 1);
  EXPECT_EQ(heldOut(*stream, 0, 0), (V{'g', 'h', 'i'}));
  EXPECT_EQ(heldOut(*stream, 0, 1), (V{'h', 'i', 'j'}));
}

// A packed text reads as the text; a hold-out that is a product in decimal is not lost to binary rounding.
TEST_F(Data, PackedTextAndHoldout) {
  writePacked("t.txt", std::string(101, 'x'));
  auto stream = open(nextToken(0.29), {{"tokens", {1}, kInt, 256}, {"labels", {1}, kInt, 256}});
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->heldOutSize(), 29);
  EXPECT_EQ(stream->trainSize(), 71);
}

// Training sees each window once an epoch.
TEST_F(Data, TrainingIsShuffled) {
  std::string text;
  for (int i = 0; i < 50; ++i)
    text += char('0' + i);
  write("t.txt", text);
  auto stream = open(nextToken(0), {{"tokens", {1}, kInt, 256}, {"labels", {1}, kInt, 256}});
  ASSERT_TRUE(stream);
  std::set<double> seen;
  V values, inOrder, order;
  for (int i = 0; i < 49; ++i) {
    stream->read(Part::Training, i, 0, values);
    seen.insert(values[0]);
    order.push_back(values[0]);
    inOrder.push_back('0' + i);
  }
  EXPECT_EQ(seen.size(), 49u);
  EXPECT_NE(order, inOrder);
}

// Every byte of a text is checked against the axis, at compile time too.
TEST_F(Data, BytesBelowAxis) {
  write("t.txt", "abc\xc3\xa9");
  const std::vector<InputShape> inputs = {{"tokens", {2}, kInt, 128}, {"labels", {2}, kInt, 128}};
  EXPECT_FALSE(open(nextToken(0), inputs));
  EXPECT_EQ(message(),
            "byte 3 of \"DIR/t.txt\" is 195, tokens is int below 128, from 0 to 127; the largest is 195: the axis "
            "needs 196 places, 256 for every byte that there is");
  EXPECT_EQ(error.input, 0);
  EXPECT_EQ(describe(nextToken(0), inputs, folder.string()).error.text, error.text);
}

TEST_F(Data, TextErrors) {
  EXPECT_FALSE(open(nextToken(0), {{"tokens", {2}, kInt, 256}, {"labels", {2}, kInt, 256}}));
  EXPECT_EQ(message(), "cannot read \"DIR/t.txt\": No such file or directory");
  write("t.txt", "abc");
  EXPECT_FALSE(open(nextToken(0), {{"tokens", {3}, kInt, 256}, {"labels", {3}, kInt, 256}}));
  EXPECT_EQ(message(), "\"DIR/t.txt\" has 3 tokens, fewer than the 4 of one sample");
  EXPECT_FALSE(open(nextToken(0), {{"tokens", {2}, kFloat, 0}, {"labels", {1}, kInt, 256}}));
  EXPECT_EQ(message(), "next_token gives [2], labels is [1]");
  EXPECT_FALSE(open(nextToken(0), {{"tokens", {2}, kInt, 256}}));
  EXPECT_EQ(message(), "next_token gives 2 values a sample, for 1 input");
}

// 16-bit tokens; 32-bit ones where the axis is larger than 65,536 or every second word is 0.
TEST_F(Data, TokenWidths) {
  const uint16_t narrow[] = {1, 2, 300, 4};
  const uint32_t wide[] = {1, 2, 70000, 4};
  const uint32_t small[] = {1, 2, 300, 4};
  write("n.bin", std::string(reinterpret_cast<const char *>(narrow), sizeof(narrow)));
  write("w.bin", std::string(reinterpret_cast<const char *>(wide), sizeof(wide)));
  write("s.bin", std::string(reinterpret_cast<const char *>(small), sizeof(small)));
  for (const auto &[name, below, third] : std::vector<std::tuple<std::string, int64_t, double>>{
           {"n.bin", 1000, 300}, {"w.bin", 100000, 70000}, {"s.bin", 1000, 300}}) {
    auto stream = open({"tokens", {name}}, {{"tokens", {4}, kInt, below}});
    ASSERT_TRUE(stream) << error.text;
    V values;
    stream->read(Part::Training, 0, 0, values);
    EXPECT_EQ(values, (V{1, 2, third, 4}));
  }
}

// Tokens whose first two bytes are those of gzip are tokens.
TEST_F(Data, TokensThatBeginAsGzipDoes) {
  std::vector<uint16_t> tokens(16, 9);
  tokens[0] = 0x8b1f;
  write("t.bin", std::string(reinterpret_cast<const char *>(tokens.data()), 32));
  auto stream = open({"tokens", {"t.bin"}}, {{"tokens", {2}, kInt, 50257}});
  ASSERT_TRUE(stream) << error.text;
  V values;
  stream->readPlain(Part::Training, 0, 0, values);
  EXPECT_EQ(values, (V{0x8b1f, 9}));
}

} // namespace
} // namespace echelon::runtime::test
