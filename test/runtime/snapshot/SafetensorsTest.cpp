#include "runtime/snapshot/Safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace echelon::runtime;

namespace {

class Safetensors : public testing::Test {
protected:
  void SetUp() override {
    path = (std::filesystem::temp_directory_path() / ("echelon-tensors-" + std::to_string(getpid()))).string();
  }
  void TearDown() override { std::filesystem::remove(path); }

  void write(const std::string &header, const std::string &data, uint64_t length) {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char *>(&length), 8);
    file << header << data;
  }
  void write(const std::string &header, const std::string &data) { write(header, data, header.size()); }
  std::string openError() {
    SafetensorsFile file;
    std::string error = file.open(path);
    const size_t at = error.find("file: ");
    return at == std::string::npos ? error : error.substr(at + 6);
  }

  std::string path;
};

// What is written in pieces reads back whole; data starts at a multiple of eight bytes; the checksum is that of the
// file.
TEST_F(Safetensors, RoundTrip) {
  const float w[6] = {1, 2, 3, 4, 5, 6};
  const int32_t n = 7;
  SafetensorsWriter writer;
  ASSERT_EQ(writer.open(path, {{"layer.w", ElementType::Float32, {2, 3}},
                               {"empty", ElementType::Float64, {0}},
                               {"n", ElementType::Int32, {}}}),
            "");
  ASSERT_EQ(writer.append(reinterpret_cast<const std::byte *>(w), 16), "");
  ASSERT_EQ(writer.append(reinterpret_cast<const std::byte *>(w + 4), 8), "");
  ASSERT_EQ(writer.append(reinterpret_cast<const std::byte *>(&n), 4), "");
  ASSERT_EQ(writer.finish(), "");
  SafetensorsFile file;
  ASSERT_EQ(file.open(path), "");
  EXPECT_EQ(file.checksum(), writer.checksum());
  EXPECT_EQ(file.bytes(), writer.bytes());
  ASSERT_EQ(file.tensors().size(), 3u);
  const SafetensorsFile::Tensor &tensor = file.tensors().at("layer.w");
  EXPECT_EQ(tensor.sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(tensor.data, w, sizeof(w)), 0);
  EXPECT_EQ(std::memcmp(file.tensors().at("n").data, &n, 4), 0);
  EXPECT_TRUE(file.tensors().at("n").sizes.empty());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data) % 8, 0u);
}

// A tensor that was not written to its end is an error.
TEST_F(Safetensors, Incomplete) {
  SafetensorsWriter writer;
  ASSERT_EQ(writer.open(path, {{"w", ElementType::Float32, {2}}}), "");
  EXPECT_EQ(writer.finish(), "cannot write \"" + path + "\": its tensors are incomplete");
}

// Headers that are cut off, lie about places or sizes, or are no JSON are refused.
TEST_F(Safetensors, BadFiles) {
  write("", "");
  EXPECT_EQ(openError(), "its header is not JSON");
  write("{}", "", uint64_t(1) << 60);
  EXPECT_EQ(openError(), "its header is cut off");
  write(R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", "1234567");
  EXPECT_EQ(openError(), "tensor w lies outside of it");
  write(R"({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}})", "12345678");
  EXPECT_EQ(openError(), "tensor w lies outside of it");
  write(R"({"w": {"dtype": "F32", "shape": [8589934592, 536870912], "data_offsets": [0, 0]}})", ""); // 2^64 bytes
  EXPECT_EQ(openError(), "tensor w lies outside of it");
  write(R"({"w": {"dtype": "F32", "shape": [18446744073709551615, 0], "data_offsets": [0, 0]}})", "");
  EXPECT_EQ(openError(), "tensor w lies outside of it");
  write(R"({"w": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}})", "12345678");
  EXPECT_EQ(openError(), "tensor w is not described");
  write(R"({"w": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}})", "12345678");
  EXPECT_EQ(openError(), "tensor w is of type F8_E4M3");
  write(R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", "12345678");
  EXPECT_EQ(openError(), "");
}

} // namespace
