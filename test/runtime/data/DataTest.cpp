#include "runtime/data/DataSource.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <unistd.h>

using namespace echelon::runtime;

namespace {

/// A folder of its own for each test.
class Data : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("echelon-data-" + std::to_string(getpid()) +
                                                       testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void write(const std::string &name, const std::string &bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
  void writePacked(const std::string &name, const std::string &bytes) {
    gzFile file = gzopen((folder / name).c_str(), "wb");
    gzwrite(file, bytes.data(), unsigned(bytes.size()));
    gzclose(file);
  }
  std::unique_ptr<DataStream> open(const DataSpec &spec, const std::vector<InputShape> &inputs) {
    auto stream = openData(spec, inputs, 7, folder.string(), error);
    EXPECT_EQ(stream != nullptr, error.text.empty());
    return stream;
  }
  /// The message with the test's folder taken out.
  std::string message() const {
    std::string text = error.text;
    for (size_t at; (at = text.find(folder.string())) != std::string::npos;)
      text.replace(at, folder.string().size(), "DIR");
    return text;
  }
  static std::vector<double> heldOut(const DataStream &stream, int64_t sample, int output) {
    std::vector<double> values;
    stream.read(Part::HeldOut, sample, output, values);
    return values;
  }

  std::filesystem::path folder;
  DataError error;
};

using V = std::vector<double>;
constexpr ElementType kInt = ElementType::Int32, kFloat = ElementType::Float32, kBool = ElementType::UInt8;

DataSpec nextToken(double holdout, const DataSpec &of = {"text", {"t.txt"}}) {
  DataSpec spec = {"next_token"};
  spec.children = {of};
  spec.args = {holdout};
  return spec;
}

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
  EXPECT_EQ(message(), "byte 3 of \"DIR/t.txt\" is 195, tokens is int below 128");
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
  EXPECT_EQ(message(), "next_token gives 2 values a sample, for 1 inputs");
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

// Integers that an input of 32 bits cannot hold are refused where it has no bound of its own.
TEST_F(Data, IntegersBeyond32Bits) {
  const InputShape y = {"y", {}, kInt, 0};
  write("y.csv", "y\n-2147483648\n2147483648\n");
  EXPECT_FALSE(open({"csv", {"y.csv"}}, {y}));
  EXPECT_EQ(message(), "\"DIR/y.csv\", line 3, column y is 2147483648, y is int, of 32 bits");
  const std::vector<uint32_t> tokens = {1, 0x80000000u};
  write("t.bin", std::string(reinterpret_cast<const char *>(tokens.data()), 8));
  DataSpec spec = {"tokens", {"t.bin"}};
  spec.args = {32};
  EXPECT_FALSE(open(spec, {{"t", {1}, kInt, 0}}));
  EXPECT_EQ(message(), "token 1 of \"DIR/t.bin\" is 2147483648, t is int, of 32 bits");
}

std::string idx(const std::vector<uint32_t> &sizes, const std::string &bytes) {
  std::string file = {0, 0, 8, char(sizes.size())};
  for (uint32_t size : sizes)
    file += {char(size >> 24), char(size >> 16), char(size >> 8), char(size)};
  return file + bytes;
}

// Files are found by their names, packed or not; pixels are divided by 255; the t10k files are held out.
TEST_F(Data, Mnist) {
  write("train-images-idx3-ubyte", idx({2, 1, 2}, {0, char(255), 51, char(102)}));
  writePacked("train-labels-idx1-ubyte.gz", idx({2}, {3, 9}));
  writePacked("t10k-images-idx3-ubyte.gz", idx({1, 1, 2}, {char(255), 0}));
  write("t10k-labels.idx1-ubyte", idx({1}, {4}));
  write("readme.txt", "train and t10k");
  const std::vector<InputShape> inputs = {{"image", {1, 2}, kFloat, 0}, {"label", {}, kInt, 10}};
  auto stream = open({"mnist", {"."}}, inputs);
  ASSERT_TRUE(stream) << error.text;
  EXPECT_EQ(stream->trainSize(), 2);
  EXPECT_EQ(stream->heldOutSize(), 1);
  EXPECT_EQ(heldOut(*stream, 0, 0), (V{1, 0}));
  EXPECT_EQ(heldOut(*stream, 0, 1), (V{4}));
  std::map<double, V> byLabel;
  for (int i = 0; i < 2; ++i) {
    V image, label;
    stream->read(Part::Training, i, 0, image);
    stream->read(Part::Training, i, 1, label);
    byLabel[label[0]] = image;
  }
  EXPECT_EQ(byLabel[3], (V{0, 1}));
  EXPECT_EQ(byLabel[9], (V{51 / 255.0, 102 / 255.0}));
  EXPECT_EQ(describe({"mnist", {"."}}, inputs, folder.string()).trainSize, 2);

  EXPECT_FALSE(open({"mnist", {"."}}, {{"image", {28, 28}, kFloat, 0}, {"label", {}, kInt, 10}}));
  EXPECT_EQ(message(), "mnist gives images [1, 2], image is [28, 28]");
  EXPECT_FALSE(open({"mnist", {"."}}, {{"image", {1, 2}, kFloat, 0}, {"label", {}, kInt, 8}}));
  EXPECT_EQ(message(), "label 1 of \"DIR/train-labels-idx1-ubyte.gz\" is 9, label is int below 8");
  EXPECT_FALSE(open({"mnist", {"."}}, {{"image", {1, 2}, kInt, 10}, {"label", {}, kInt, 10}}));
  EXPECT_EQ(message(), "mnist gives values of type float, image is int");
}

// A header's sizes may lie: their product is more than 64 bits, or nothing.
TEST_F(Data, MnistSizesThatLie) {
  const InputShape label = {"label", {}, kInt, 10};
  const int64_t huge = int64_t(1) << 31;
  write("train-images", idx({4, uint32_t(huge), uint32_t(huge)}, {}));
  write("train-labels", idx({4}, {0, 1, 2, 3}));
  write("t10k-images", idx({0, uint32_t(huge), uint32_t(huge)}, {}));
  write("t10k-labels", idx({0}, {}));
  EXPECT_FALSE(open({"mnist", {"."}}, {{"image", {huge, huge}, kFloat, 0}, label}));
  EXPECT_EQ(message(), "mnist: \"DIR/train-images\" is shorter than its header says");
  write("train-images", idx({0, 1, 2}, {}));
  write("train-labels", idx({0}, {}));
  write("t10k-images", idx({0, 1, 2}, {}));
  EXPECT_FALSE(open({"mnist", {"."}}, {{"image", {1, 2}, kFloat, 0}, label}));
  EXPECT_EQ(message(), "mnist: the data has no samples to train on");
}

// A failure lists what was looked for and what is there; damaged files are named.
TEST_F(Data, MnistErrors) {
  const std::vector<InputShape> inputs = {{"image", {1, 2}, kFloat, 0}, {"label", {}, kInt, 10}};
  write("train-images-idx3-ubyte", idx({2, 1, 2}, {0, 1, 2}));
  write("other", "");
  EXPECT_FALSE(open({"mnist", {"."}}, inputs));
  EXPECT_EQ(message(),
            "mnist: no training labels in \"DIR\"; looked for an idx file of one dimension, packed or not, with "
            "train in its name; the folder has other, train-images-idx3-ubyte");
  write("train-labels-idx1-ubyte", idx({2}, {0, 1}));
  EXPECT_FALSE(open({"mnist", {"."}}, inputs));
  EXPECT_EQ(message(), "mnist: \"DIR/train-images-idx3-ubyte\" is shorter than its header says");
  EXPECT_FALSE(open({"mnist", {"nowhere"}}, inputs));
  EXPECT_EQ(message(), "cannot read folder \"DIR/nowhere\": No such file or directory");
  writePacked("packed.txt", std::string(10000, 'a') + "b");
  std::filesystem::resize_file(folder / "packed.txt", std::filesystem::file_size(folder / "packed.txt") - 12);
  EXPECT_FALSE(open(nextToken(0, {"text", {"packed.txt"}}), {{"t", {2}, kInt, 256}, {"l", {2}, kInt, 256}}));
  EXPECT_EQ(message(), "cannot unpack \"DIR/packed.txt\": the file is cut off");
}

// Batches are read in the order of their names.
TEST_F(Data, Cifar10) {
  auto record = [](int label, int pixel) { return std::string(1, char(label)) + std::string(3072, char(pixel)); };
  writePacked("cifar10_train_first.bin.gz", record(1, 255) + record(2, 51));
  write("data_batch_2.bin", record(3, 0));
  write("test_batch.bin", record(9, 102));
  const std::vector<InputShape> inputs = {{"image", {3, 32, 32}, kFloat, 0}, {"label", {}, kInt, 10}};
  auto stream = open({"cifar10", {"."}}, inputs);
  ASSERT_TRUE(stream) << error.text;
  EXPECT_EQ(stream->trainSize(), 3);
  EXPECT_EQ(heldOut(*stream, 0, 0), V(3072, 102 / 255.0));
  V label;
  stream->readPlain(Part::Training, 2, 1, label);
  EXPECT_EQ(label, (V{3}));
  write("data_batch_1", "pickled");
  EXPECT_FALSE(open({"cifar10", {"."}}, inputs));
  EXPECT_EQ(message(),
            "cifar10: \"DIR/data_batch_1\" is not in the binary format: its 7 bytes are no multiple of 3073");
}

std::string npy(const std::string &type, const std::string &shape, const std::string &bytes, bool fortran = false) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64)
    header += ' ';
  header += '\n';
  return "\x93NUMPY" + std::string("\x01\x00", 2) + char(header.size() & 255) + char(header.size() >> 8) + header +
         bytes;
}
template <class T> std::string bytesOfValues(std::vector<T> values) {
  return std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
}

// One array an input, in C or Fortran order, packed or not; values come unchanged.
TEST_F(Data, Npy) {
  writePacked("x.npy", npy("<f8", "(2, 3)", bytesOfValues<double>({0.5, 1, 2, 3, 4, 1e300})));
  write("xf.npy", npy("<f4", "(2, 3)", bytesOfValues<float>({0.5, 3, 1, 4, 2, 5}), true));
  write("y.npy", npy("<i8", "(2,)", bytesOfValues<int64_t>({1, 2})));
  write("b.npy", npy("|b1", "(2, 1)", {1, 0}));
  auto stream = open({"npy", {"x.npy", "xf.npy", "y.npy", "b.npy"}},
                     {{"x", {3}, kFloat, 0}, {"xf", {3}, kFloat, 0}, {"y", {}, kInt, 3}, {"b", {1}, kBool, 0}});
  ASSERT_TRUE(stream) << error.text;
  EXPECT_EQ(stream->trainSize(), 2);
  EXPECT_EQ(stream->heldOutSize(), 0);
  V values;
  stream->readPlain(Part::Training, 1, 0, values);
  EXPECT_EQ(values, (V{3, 4, 1e300}));
  stream->readPlain(Part::Training, 1, 1, values);
  EXPECT_EQ(values, (V{3, 4, 5}));
  stream->readPlain(Part::Training, 1, 2, values);
  EXPECT_EQ(values, (V{2}));
  stream->readPlain(Part::Training, 0, 3, values);
  EXPECT_EQ(values, (V{1}));
}

TEST_F(Data, NpyErrors) {
  write("x.npy", npy("<f4", "(2, 3)", bytesOfValues<float>({0, 1, 2, 3, 4, 5})));
  write("y.npy", npy("<i4", "(2,)", bytesOfValues<int32_t>({1, -2})));
  write("three.npy", npy("<i4", "(3,)", bytesOfValues<int32_t>({1, 2, 3})));
  write("cut.npy", npy("<i4", "(4,)", bytesOfValues<int32_t>({1, 2, 3})));
  write("negative.npy", npy("<i4", "(-3,)", bytesOfValues<int32_t>({1, 2, 3})));
  write("wide.npy", npy("<u8", "(1,)", bytesOfValues<uint64_t>({~uint64_t(0)})));
  write("big.npy", npy(">i4", "(1,)", bytesOfValues<int32_t>({1})));
  const InputShape x = {"x", {3}, kFloat, 0}, y = {"y", {}, kInt, 10};
  EXPECT_FALSE(open({"npy", {"x.npy", "y.npy"}}, {x, y}));
  EXPECT_EQ(message(), "value 1 of \"DIR/y.npy\" is -2, y is int below 10");
  EXPECT_FALSE(open({"npy", {"x.npy", "three.npy"}}, {x, y}));
  EXPECT_EQ(message(), "\"DIR/three.npy\" has 3 samples, the file before it 2");
  EXPECT_FALSE(open({"npy", {"x.npy", "x.npy"}}, {x, y}));
  EXPECT_EQ(message(), "\"DIR/x.npy\" gives [3] a sample, y is []");
  EXPECT_FALSE(open({"npy", {"x.npy"}}, {{"x", {3}, kInt, 10}}));
  EXPECT_EQ(message(), "\"DIR/x.npy\" has values of type float, x is int");
  EXPECT_FALSE(open({"npy", {"cut.npy"}}, {y}));
  EXPECT_EQ(message(), "\"DIR/cut.npy\" is shorter than its header says");
  EXPECT_FALSE(open({"npy", {"negative.npy"}}, {y}));
  EXPECT_EQ(message(), "\"DIR/negative.npy\" is not an npy file: it has a negative size");
  EXPECT_FALSE(open({"npy", {"wide.npy"}}, {{"y", {}, kInt, 0}}));
  EXPECT_EQ(message(), "value 0 of \"DIR/wide.npy\" is 9223372036854775807, y is int, of 32 bits");
  EXPECT_FALSE(open({"npy", {"big.npy"}}, {y}));
  EXPECT_EQ(message(),
            "\"DIR/big.npy\" has values of type >i4; float32, float64, bool and little-endian integers are read");
}

// One header line, then columns from left to right; quotes, spaces, a file without a last line end.
TEST_F(Data, Csv) {
  write("x.csv", "a,\"b, c\",label\r\n1.5, -2e3,2\r\n\"3\",+4,0");
  auto stream = open({"csv", {"x.csv"}}, {{"x", {2}, kFloat, 0}, {"y", {}, kInt, 3}});
  ASSERT_TRUE(stream) << error.text;
  EXPECT_EQ(stream->trainSize(), 2);
  V values;
  stream->readPlain(Part::Training, 0, 0, values);
  EXPECT_EQ(values, (V{1.5, -2000}));
  stream->readPlain(Part::Training, 1, 0, values);
  EXPECT_EQ(values, (V{3, 4}));
  stream->readPlain(Part::Training, 0, 1, values);
  EXPECT_EQ(values, (V{2}));

  const InputShape y = {"y", {}, kInt, 2}, x = {"x", {2}, kFloat, 0};
  EXPECT_FALSE(open({"csv", {"x.csv"}}, {x, y}));
  EXPECT_EQ(message(), "\"DIR/x.csv\", line 2, column label is 2, y is int below 2");
  EXPECT_FALSE(open({"csv", {"x.csv"}}, {x}));
  EXPECT_EQ(message(), "\"DIR/x.csv\", line 1 has 3 columns; the inputs take 2");
  EXPECT_FALSE(open({"csv", {"x.csv"}}, {{"y", {3}, kInt, 9}}));
  EXPECT_EQ(message(), "\"DIR/x.csv\", line 2, column a: 1.5 is no integer, y is int");
  write("bad.csv", "a,b,label\n1,,2\n");
  EXPECT_FALSE(open({"csv", {"bad.csv"}}, {x, y}));
  EXPECT_EQ(message(), "\"DIR/bad.csv\", line 2, column b: \"\" is not a number");
}

// 12 digits, the answer behind a start token, the answer; held-out samples are others; the stream is a function of the
// seed.
TEST_F(Data, SortedDigits) {
  DataSpec spec = {"synthetic"};
  spec.name = "sorted_digits";
  auto stream = open(spec, {{"s", {12}, kInt, 12}, {"t", {12}, kInt, 12}, {"a", {12}, kInt, 12}});
  ASSERT_TRUE(stream) << error.text;
  EXPECT_EQ(stream->trainSize(), kUnlimited);
  V source, target, answer, other;
  std::set<double> digits;
  for (int i = 0; i < 50; ++i) {
    stream->read(Part::Training, i, 0, source);
    stream->read(Part::Training, i, 1, target);
    stream->read(Part::Training, i, 2, answer);
    digits.insert(source.begin(), source.end());
    std::sort(source.begin(), source.end());
    EXPECT_EQ(answer, source);
    EXPECT_EQ(target[0], 10);
    EXPECT_EQ(V(target.begin() + 1, target.end()), V(answer.begin(), answer.end() - 1));
  }
  EXPECT_EQ(digits, (std::set<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  stream->read(Part::Training, 0, 0, source);
  EXPECT_NE(heldOut(*stream, 0, 0), source);
  auto again = openData(spec, {}, 7, "", error), reseeded = openData(spec, {}, 8, "", error);
  again->read(Part::Training, 0, 0, other);
  EXPECT_EQ(other, source);
  reseeded->read(Part::Training, 0, 0, other);
  EXPECT_NE(other, source);
  EXPECT_FALSE(open(spec, {{"s", {12}, kInt, 12}, {"t", {12}, kInt, 10}, {"a", {12}, kInt, 12}}));
  EXPECT_EQ(message(), "the largest token of synthetic(sorted_digits) is 10, t is int below 10");
}

// Labels are the tokens one further, all below the axis.
TEST_F(Data, SyntheticTokens) {
  DataSpec spec = {"synthetic"};
  spec.name = "tokens";
  auto stream = open(spec, {{"tokens", {8}, kInt, 50}, {"labels", {8}, kInt, 50}});
  ASSERT_TRUE(stream) << error.text;
  V tokens, labels;
  stream->read(Part::Training, 3, 0, tokens);
  stream->read(Part::Training, 3, 1, labels);
  EXPECT_EQ(V(tokens.begin() + 1, tokens.end()), V(labels.begin(), labels.end() - 1));
  for (double t : labels)
    EXPECT_TRUE(t >= 0 && t < 50 && t == int(t));
}

// flip mirrors about half of the samples and crop moves by at most pad, in training alone; normalize acts always.
TEST_F(Data, Transforms) {
  V pixels;
  for (int i = 0; i < 2 * 3 * 4; ++i)
    pixels.push_back(i + 1);
  std::string two = bytesOfValues(pixels);
  write("x.npy", npy("<f8", "(1, 2, 3, 4)", two));
  DataSpec spec = {"npy", {"x.npy"}};
  const std::vector<InputShape> inputs = {{"x", {2, 3, 4}, kFloat, 0}};
  V values;

  spec.transforms = {{"flip", {}}};
  auto stream = open(spec, inputs);
  int flipped = 0;
  for (int i = 0; i < 400; ++i) {
    stream->read(Part::Training, i, 0, values);
    EXPECT_TRUE(values[0] == 1 || values[0] == 4);
    EXPECT_EQ(values[0] == 4, values[23] == 21);
    flipped += values[0] == 4;
  }
  EXPECT_NEAR(flipped, 200, 50);
  stream->readPlain(Part::Training, 0, 0, values);
  EXPECT_EQ(values, pixels);

  spec.transforms = {{"crop", {1}}};
  stream = open(spec, inputs);
  std::set<double> corners;
  for (int i = 0; i < 400; ++i) {
    stream->read(Part::Training, i, 0, values);
    corners.insert(values[5]); // was 6 at (1, 1): now any of its neighbours
  }
  EXPECT_EQ(corners, (std::set<double>{1, 2, 3, 5, 6, 7, 9, 10, 11}));

  spec.transforms = {{"normalize", {1, 2, 10, 100}}};
  stream = open(spec, inputs);
  stream->readPlain(Part::Training, 0, 0, values);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[23], (24 - 2) / 100.0);

  spec.transforms = {{"normalize", {1, 2, 3, 1, 1, 1}}};
  EXPECT_FALSE(open(spec, inputs));
  EXPECT_EQ(message(), "normalize has 3 channels; x has [2, 3, 4]");
  spec.transforms = {{"rotate", {}}};
  EXPECT_FALSE(open(spec, inputs));
  EXPECT_EQ(message(), "transform rotate is not built");
  EXPECT_FALSE(open({"mix"}, inputs));
  EXPECT_EQ(message(), "data source mix is not built");
}

} // namespace
