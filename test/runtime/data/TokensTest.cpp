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

/// 41 tokens as GPT-2 has them, and 41 as Llama 3 has them.
std::vector<int64_t> ids(bool large = false) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 41; ++i)
    tokens.push_back((i * 7919 + 11) % (large ? 128256 : 50257));
  return tokens;
}
template <class T> std::string bytesOf(const std::vector<int64_t> &tokens) {
  return bytesOfValues(std::vector<T>(tokens.begin(), tokens.end()));
}
/// A shard of llm.c.
std::string shard(int32_t magic, int32_t version, int32_t count, const std::string &tokens) {
  std::vector<int32_t> header(256);
  header[0] = magic, header[1] = version, header[2] = count;
  return bytesOfValues(header) + tokens;
}
/// Megatron's index of sequences of these lengths.
std::string index(uint8_t code, size_t width, const std::vector<int32_t> &lengths) {
  std::vector<int64_t> begins, documents = {0};
  int64_t next = 0;
  for (int32_t length : lengths) {
    begins.push_back(next);
    next += length * int64_t(width);
    documents.push_back(int64_t(begins.size()));
  }
  return std::string("MMIDIDX\0\0", 9) + bytesOfValues<uint64_t>({1}) + char(code) +
         bytesOfValues<uint64_t>({lengths.size(), documents.size()}) + bytesOfValues(lengths) + bytesOfValues(begins) +
         bytesOfValues(documents);
}

class Tokens : public Data {
protected:
  /// The whole stream that a source gives, or the message.
  std::vector<int64_t> stream(const DataSpec &spec, int64_t below = 50304) {
    auto source = open(spec, {{"tokens", {1}, kInt, below}});
    std::vector<int64_t> tokens;
    V values;
    for (int64_t i = 0; source && i < source->trainSize(); ++i) {
      source->readPlain(Part::Training, i, 0, values);
      tokens.push_back(int64_t(values[0]));
    }
    return tokens;
  }
  std::string refusal(const DataSpec &spec, int64_t below = 50304) {
    EXPECT_EQ(stream(spec, below), std::vector<int64_t>());
    return message();
  }
  DataSpec withBits(int bits, std::vector<std::string> paths = {"t.bin"}) {
    DataSpec spec = {"tokens", std::move(paths)};
    spec.args = {double(bits)};
    return spec;
  }
};

// The same tokens are the same stream, in whatever form they were written.
TEST_F(Tokens, FormsOfOneStream) {
  const std::vector<int64_t> tokens = ids();
  const DataSpec file = {"tokens", {"t.bin"}};
  for (const std::string &bytes :
       {bytesOf<uint16_t>(tokens), bytesOf<uint32_t>(tokens), bytesOf<int64_t>(tokens),
        shard(20240520, 1, 41, bytesOf<uint16_t>(tokens)), shard(20240801, 7, 41, bytesOf<uint32_t>(tokens)),
        npy("<u2", "(41,)", bytesOf<uint16_t>(tokens)), npy("<i4", "(1, 41)", bytesOf<int32_t>(tokens)),
        npy("<i8", "(41, 1)", bytesOf<int64_t>(tokens))}) {
    write("t.bin", bytes);
    EXPECT_EQ(stream(file), tokens) << message();
    EXPECT_EQ(stream(file, 128256), tokens) << message();
  }
  writePacked("t.bin", shard(20240520, 1, 41, bytesOf<uint16_t>(tokens)));
  EXPECT_EQ(stream(file), tokens);
  const std::vector<int64_t> large = ids(true);
  for (const std::string &bytes :
       {bytesOf<uint32_t>(large), bytesOf<int64_t>(large), shard(20240801, 7, 41, bytesOf<uint32_t>(large)),
        npy("<u4", "(41,)", bytesOf<uint32_t>(large))}) {
    write("t.bin", bytes);
    EXPECT_EQ(stream(file, 128256), large) << message();
  }
}

// Megatron's tokens are of the kind that the index beside them tells.
TEST_F(Tokens, Megatron) {
  const std::vector<int64_t> tokens = ids();
  const DataSpec file = {"tokens", {"t.bin"}};
  write("t.bin", bytesOf<int32_t>(tokens));
  write("t.idx", index(4, 4, {20, 0, 21}));
  EXPECT_EQ(stream(file), tokens) << message();
  write("t.bin", bytesOf<uint16_t>(tokens));
  write("t.idx", index(8, 2, {41}));
  EXPECT_EQ(stream(file), tokens) << message();
  write("t.bin", bytesOf<int64_t>(tokens));
  write("t.idx", index(5, 8, {40, 1}));
  EXPECT_EQ(stream(file), tokens) << message();
  write("t.idx", index(5, 8, {40}));
  EXPECT_EQ(refusal(file), "\"DIR/t.idx\", the index of \"DIR/t.bin\", tells of 40 tokens of 64 bits, 320 bytes, and "
                           "there are 328; they are not of one another, or not copied whole");
  write("t.idx", index(7, 4, {41}));
  EXPECT_EQ(refusal(file),
            "\"DIR/t.idx\", the index of \"DIR/t.bin\", says that its tokens are of kind 7, which are real numbers; "
            "write the tokens alone, as array.astype('uint16').tofile(\"FILE\") does, and without an index");
  std::string cut = index(5, 8, {41});
  cut[18 + 6] = 1; // 2^48 sequences
  write("t.idx", cut);
  EXPECT_EQ(refusal(file), "\"DIR/t.idx\", the index of \"DIR/t.bin\", is cut off: it tells of 281474976710657 "
                           "sequences and 2 documents");
  std::string turned = index(5, 8, {20, 21});
  std::swap_ranges(turned.begin() + 34 + 8, turned.begin() + 34 + 16, turned.begin() + 34 + 16);
  write("t.idx", turned);
  EXPECT_EQ(refusal(file),
            "\"DIR/t.idx\", the index of \"DIR/t.bin\", has sequence 0 elsewhere than after the one before it; write "
            "the tokens alone, as array.astype('uint16').tofile(\"FILE\") does, and without an index");
  EXPECT_EQ(refusal({"tokens", {"t.idx"}}),
            "\"DIR/t.idx\" is an index of Megatron (.idx) and holds no tokens; name the .bin file beside it");
}

// Several files are one stream in their order, and of one form.
TEST_F(Tokens, SeveralFiles) {
  const std::vector<int64_t> tokens = ids(), first(tokens.begin(), tokens.begin() + 18),
                             second(tokens.begin() + 18, tokens.end());
  write("a.bin", shard(20240520, 1, 18, bytesOf<uint16_t>(first)));
  write("none.bin", shard(20240520, 1, 0, ""));
  write("b.bin", shard(20240520, 1, 23, bytesOf<uint16_t>(second)));
  EXPECT_EQ(stream({"tokens", {"a.bin", "none.bin", "b.bin"}}), tokens) << message();
  auto pairs = open(nextToken(0, {"tokens", {"a.bin", "none.bin", "b.bin"}}),
                    {{"tokens", {4}, kInt, 50304}, {"labels", {4}, kInt, 50304}});
  ASSERT_TRUE(pairs) << error.text;
  EXPECT_EQ(pairs->trainSize(), 10);
  V labels;
  pairs->readPlain(Part::Training, 4, 1, labels); // over the border
  EXPECT_EQ(labels, V(tokens.begin() + 17, tokens.begin() + 21));
  write("b.bin", bytesOf<uint16_t>(second));
  EXPECT_EQ(refusal({"tokens", {"a.bin", "b.bin"}}),
            "\"DIR/a.bin\" is a shard of llm.c with tokens of 16 bits, \"DIR/b.bin\" is without a header, with tokens "
            "of 16 bits; files of one stream are of one form");
  write("bad.bin", shard(20240520, 1, 2, bytesOf<uint16_t>({1, 50300})));
  EXPECT_EQ(
      refusal({"tokens", {"a.bin", "bad.bin"}}, 50257),
      "token 1 of \"DIR/bad.bin\" is 50300, tokens is int below 50257, from 0 to 50256; the largest is 50300: the "
      "axis needs 50301 places");
}

// What does not show its width is not guessed; `bits` says it.
TEST_F(Tokens, WidthsInDoubt) {
  const std::string bits = "; say bits = 16, 32 or 64, as in tokens(\"FILE\", bits = 16)";
  const std::string doubt = "\"DIR/t.bin\" does not show how wide its tokens are: ";
  const DataSpec file = {"tokens", {"t.bin"}};
  write("t.bin", bytesOf<uint32_t>({1, 2, 300, 4}));
  EXPECT_EQ(refusal(file), doubt +
                               "every second 16-bit number is 0, as in tokens of 32 bits, but there are too few to "
                               "tell" +
                               bits);
  EXPECT_EQ(stream(withBits(32)), (std::vector<int64_t>{1, 2, 300, 4}));
  EXPECT_EQ(stream(withBits(16)), (std::vector<int64_t>{1, 0, 2, 0, 300, 0, 4, 0}));
  write("t.bin", bytesOf<int64_t>({1, 2, 300, 4}));
  EXPECT_EQ(refusal(file), doubt +
                               "every second 32-bit number is 0, as in tokens of 64 bits, but there are too few to "
                               "tell" +
                               bits);
  EXPECT_EQ(stream(withBits(64)), (std::vector<int64_t>{1, 2, 300, 4}));
  write("t.bin", std::string(400, '\0'));
  EXPECT_EQ(refusal(file), doubt + "all of its numbers are 0" + bits);
  write("t.bin", bytesOf<uint32_t>({1, 70000, 300, 4}));
  EXPECT_EQ(refusal(file, 100000), doubt + "they may be tokens of 16 or of 32 bits" + bits);
  write("t.bin", bytesOf<uint16_t>({1, 2, 300, 4}));
  EXPECT_EQ(stream(file, 1000), (std::vector<int64_t>{1, 2, 300, 4})); // too large, all of them, in 32 bits
  // 32 bits for an axis that is too short: not 16 bits, whose every number is below it
  std::vector<int64_t> beyond;
  for (int64_t i = 0; i < 1000; ++i)
    beyond.push_back((i * 7919 + 11) % 200019);
  write("t.bin", bytesOf<uint32_t>(beyond));
  EXPECT_EQ(refusal(file, 65536),
            doubt + "its 16-bit numbers are of another kind at odd places than at even ones" + bits);
  write("t.bin", bytesOf<float>(ids()));
  EXPECT_EQ(refusal(file), doubt + "its numbers look like float32; save array.astype('uint16') or 'uint32'" + bits);
  write("t.bin", bytesOf<double>(ids()));
  EXPECT_EQ(refusal(file), doubt + "its numbers look like float64; save array.astype('uint16') or 'uint32'" + bits);
  write("t.bin", bytesOf<int64_t>(ids()) + "abcd");
  EXPECT_EQ(refusal(file), doubt +
                               "it looks like tokens of 64 bits, and the last of them is cut off, for the file has "
                               "332 bytes" +
                               bits);
  write("t.bin", "abc");
  EXPECT_EQ(refusal(withBits(16)), "\"DIR/t.bin\" has 3 bytes, not a multiple of a token's 2");
}

// A first half of zeros, as padding is, tells nothing; what follows it does.
TEST_F(Tokens, WidthBehindZeros) {
  std::vector<int64_t> tokens(200000), tail = ids();
  tokens.insert(tokens.end(), tail.begin(), tail.end());
  const DataSpec file = {"tokens", {"t.bin"}};
  for (const std::string &bytes : {bytesOf<uint16_t>(tokens), bytesOf<uint32_t>(tokens), bytesOf<int64_t>(tokens)}) {
    write("t.bin", bytes);
    EXPECT_EQ(stream(file), tokens) << message();
  }
}

// Few kinds of tokens, as of characters or digits, are no halves of wider ones.
TEST_F(Tokens, SmallVocabularies) {
  for (const int64_t below : {2, 10, 65}) {
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i < 400; ++i)
      tokens.push_back((i * i / 3 + i / 5) % below);
    for (const std::string &bytes : {bytesOf<uint16_t>(tokens), bytesOf<uint32_t>(tokens), bytesOf<int64_t>(tokens)}) {
      write("t.bin", bytes);
      EXPECT_EQ(stream({"tokens", {"t.bin"}}, below), tokens) << message();
    }
  }
}

// A header that is not what it says, or that `bits` contradicts.
TEST_F(Tokens, Headers) {
  const std::string plain = "; write the tokens alone, as array.astype('uint16').tofile(\"FILE\") does";
  const DataSpec file = {"tokens", {"t.bin"}};
  write("t.bin", shard(20240520, 2, 41, bytesOf<uint16_t>(ids())));
  EXPECT_EQ(refusal(file), "\"DIR/t.bin\" is a shard of llm.c (20240520) of version 2, and version 1 is read" + plain);
  write("t.bin", shard(20240520, 1, 40, bytesOf<uint16_t>(ids())));
  EXPECT_EQ(refusal(file),
            "\"DIR/t.bin\" is a shard of llm.c whose header tells of 40 tokens of 16 bits, and it has 82 "
            "bytes after its header; it may not have been copied whole, or was written otherwise" +
                plain);
  write("t.bin", shard(20240520, 1, -1, bytesOf<uint16_t>(ids())));
  EXPECT_NE(refusal(file).find("tells of 4294967295 tokens"), std::string::npos) << message();
  write("t.bin", shard(20250211, 1, 41, bytesOf<uint16_t>(ids())));
  EXPECT_EQ(refusal(file), "\"DIR/t.bin\" looks like a file with a header as llm.c writes them (it begins with "
                           "20250211), and shards of tokens begin with 20240520 or 20240801" +
                               plain);
  write("t.bin", shard(20240520, 1, 41, bytesOf<uint16_t>(ids())).substr(0, 500));
  EXPECT_NE(refusal(file).find("and it has 0 bytes after its header"), std::string::npos) << message();
  write("t.bin", shard(20240520, 1, 41, bytesOf<uint16_t>(ids())));
  EXPECT_EQ(stream(withBits(16)), ids());
  EXPECT_EQ(refusal(withBits(32)), "\"DIR/t.bin\" is a shard of llm.c with tokens of 16 bits, and the spec says bits = "
                                   "32; leave bits out");
  write("t.bin", npy("<i8", "(41,)", bytesOf<int64_t>(ids())));
  EXPECT_EQ(refusal(withBits(16)),
            "\"DIR/t.bin\" is an array of NumPy with tokens of 64 bits, and the spec says bits = "
            "16; leave bits out");
  write("t.bin", npy("<f4", "(41,)", bytesOf<float>(ids())));
  EXPECT_EQ(refusal(file), "\"DIR/t.bin\" holds real numbers of 32 bits, and tokens are integers; save "
                           "array.astype('uint16') or 'uint32'");
  write("t.bin", npy("<u2", "(2, 20)", bytesOf<uint16_t>(ids()), true));
  EXPECT_EQ(refusal(file), "\"DIR/t.bin\" has its columns, not its rows, one after the other; save "
                           "numpy.ascontiguousarray(array)");
}

// Tokens beyond the axis: numbers with a sign, and bytes in the other order, are told.
TEST_F(Tokens, BeyondTheAxis) {
  std::vector<int64_t> tokens = ids();
  tokens[3] = -100;
  for (const std::string &bytes :
       {bytesOf<int32_t>(tokens), bytesOf<int64_t>(tokens), npy("<i8", "(41,)", bytesOf<int64_t>(tokens)),
        npy("<i4", "(41,)", bytesOf<int32_t>(tokens))}) {
    write("t.bin", bytes);
    EXPECT_EQ(refusal(bytes.size() < 200 ? withBits(32) : DataSpec{"tokens", {"t.bin"}})
                  .find("token 3 of \"DIR/t.bin\" is -100, tokens is int below 50304, from 0 to 50303; "),
              0u)
        << message();
  }
  write("t.bin", bytesOf<uint16_t>(tokens));
  EXPECT_EQ(refusal({"tokens", {"t.bin"}}),
            "token 3 of \"DIR/t.bin\" is 65436, tokens is int below 50304, from 0 to 50303; the largest is 65436: the "
            "axis needs 65437 places; as a number with a sign it is -100");
  std::vector<int64_t> swapped;
  for (int64_t i = 0; i < 40; ++i)
    swapped.push_back(int64_t(__builtin_bswap16(uint16_t(i * 37 % 600))));
  write("t.bin", bytesOf<uint16_t>(swapped));
  EXPECT_NE(refusal({"tokens", {"t.bin"}}, 600)
                .find("; in the other order of bytes all are below it: save them little endian, as "
                      "array.astype('<u2') is"),
            std::string::npos)
      << message();
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
