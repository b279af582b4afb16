// What the tests of data sources share: a folder of files made for the test, and the bytes of arrays.
#pragma once

#include "runtime/data/DataSource.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace echelon::runtime::test {

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

/// An npy file.
inline std::string npy(const std::string &type, const std::string &shape, const std::string &bytes,
                       bool fortran = false) {
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

/// next_token over a source.
inline DataSpec nextToken(double holdout, const DataSpec &of = {"text", {"t.txt"}}) {
  DataSpec spec = {"next_token"};
  spec.children = {of};
  spec.args = {holdout};
  return spec;
}

} // namespace echelon::runtime::test
