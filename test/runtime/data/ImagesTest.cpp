// mnist and cifar10.
#include "DataFixture.h"
#include "runtime/data/File.h"

#include <map>

namespace echelon::runtime::test {
namespace {

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
  EXPECT_EQ(message(),
            "label 1 of \"DIR/train-labels-idx1-ubyte.gz\" is 9, label is int below 8, from 0 to 7; the largest is 9: "
            "the axis needs 10 places");
  EXPECT_FALSE(open({"mnist", {"."}}, {{"image", {1, 2}, kInt, 10}, {"label", {}, kInt, 10}}));
  EXPECT_EQ(message(), "mnist gives values of type float, image is int");
}

// Files are packed by what they hold, not by their names.
TEST_F(Data, MnistPackedUnderAnyName) {
  for (std::string part : {"train", "t10k"}) {
    writePacked(part + "-images", idx({2, 20, 20}, std::string(800, '\0')));
    write(part + "-labels", idx({2}, {1, 2}));
  }
  const std::vector<InputShape> inputs = {{"image", {20, 20}, kFloat, 0}, {"label", {}, kInt, 10}};
  EXPECT_TRUE(open({"mnist", {"."}}, inputs)) << error.text;
  EXPECT_EQ(describe({"mnist", {"."}}, inputs, folder.string()).error.text, "");
}

// A failure lists what was looked for and what is there; damaged files are named.
TEST_F(Data, MnistErrors) {
  const std::vector<InputShape> inputs = {{"image", {1, 2}, kFloat, 0}, {"label", {}, kInt, 10}};
  write("train-images-idx3-ubyte", idx({2, 1, 2}, {0, 1, 2}));
  write("other", "");
  EXPECT_FALSE(open({"mnist", {"."}}, inputs));
  EXPECT_EQ(
      message(),
      "mnist: no training labels in \"DIR\"; looked for an idx file of bytes in one dimension, packed or not, with "
      "train in its name; the folder has other, train-images-idx3-ubyte");
  std::string floats = idx({2}, {0, 1});
  floats[2] = 0x0d;
  write("train-labels-idx1-ubyte", floats);
  EXPECT_FALSE(open({"mnist", {"."}}, inputs));
  EXPECT_EQ(
      message(),
      "mnist: no training labels in \"DIR\"; looked for an idx file of bytes in one dimension, packed or not, with "
      "train in its name; \"DIR/train-labels-idx1-ubyte\" holds float32, by its type byte 0x0d, where unsigned bytes "
      "have 0x08");
  write("train-labels-idx1-ubyte", idx({2}, {0, 1}));
  EXPECT_FALSE(open({"mnist", {"."}}, inputs));
  EXPECT_EQ(
      message(),
      "mnist: \"DIR/train-images-idx3-ubyte\" is shorter than its header says; it may not have been copied whole");
  EXPECT_FALSE(open({"mnist", {"nowhere"}}, inputs));
  EXPECT_EQ(message(), "cannot read folder \"DIR/nowhere\": No such file or directory");
  writePacked("packed.txt", std::string(10000, 'a') + "b");
  std::filesystem::resize_file(folder / "packed.txt", std::filesystem::file_size(folder / "packed.txt") - 12);
  EXPECT_FALSE(open(nextToken(0, {"text", {"packed.txt"}}), {{"t", {2}, kInt, 256}, {"l", {2}, kInt, 256}}));
  EXPECT_EQ(message(), "cannot unpack \"DIR/packed.txt\": the file is cut off");
}

// What unpacks to more than there is memory for is refused before it takes that memory.
TEST_F(Data, PackedBeyondMemory) {
  writePacked("packed.txt", std::string(1000000, 'a'));
  FileBytes file;
  const std::string path = (folder / "packed.txt").string();
  EXPECT_EQ(readFile(path, file, SIZE_MAX, 200000),
            "cannot unpack \"" + path + "\": it holds more than the 0.00 GB of memory that it may take here");
  EXPECT_EQ(readFile(path, file, 1000, 200000), "");
  EXPECT_EQ(file.size(), 1000u);
  EXPECT_EQ(readFile(path, file), "");
  EXPECT_EQ(file.size(), 1000000u);
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
  EXPECT_EQ(message(),
            "mnist: \"DIR/train-images\" is shorter than its header says; it may not have been copied whole");
  write("train-images", idx({0, 1, 2}, {}));
  write("train-labels", idx({0}, {}));
  write("t10k-images", idx({0, 1, 2}, {}));
  EXPECT_FALSE(open({"mnist", {"."}}, {{"image", {1, 2}, kFloat, 0}, label}));
  EXPECT_EQ(message(), "mnist: the data has no samples to train on");
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
            "cifar10: \"DIR/data_batch_1\" is not in the binary format: its 7 bytes are no multiple of 3073; it looks "
            "like text; take the binary version, not the one for Python");
}

} // namespace
} // namespace echelon::runtime::test
