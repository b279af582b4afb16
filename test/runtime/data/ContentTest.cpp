// Files that are something else than their source takes them for.
#include "runtime/data/Content.h"
#include "DataFixture.h"

namespace echelon::runtime::test {
namespace {

using namespace std::string_literals;

class Contents : public Data {
protected:
  std::string nameOf(const std::string &bytes) {
    write("x", bytes);
    FileBytes file;
    EXPECT_EQ(readFile((folder / "x").string(), file), "");
    return contentOf(file).name;
  }
  std::string refusal(const DataSpec &spec, const std::vector<InputShape> &inputs) {
    EXPECT_FALSE(open(spec, inputs));
    return message();
  }
};

/// A zip archive whose first file has this name.
std::string zip(const std::string &first) {
  return "PK\x03\x04"s + std::string(22, '\0') + char(first.size()) + std::string(3, '\0') + first + "…";
}
std::string utf16(const std::string &text) {
  std::string wide;
  for (char c : text)
    wide += {c, '\0'};
  return wide;
}

TEST_F(Contents, Names) {
  const std::string some(64, '\x91');
  EXPECT_EQ(nameOf("\x93NUMPY\x01\0"s + some), "an array of NumPy (.npy)");
  EXPECT_EQ(nameOf(zip("arr_0.npy")), "arrays of numpy.savez (.npz)");
  EXPECT_EQ(nameOf(zip("model/data.pkl")), "a checkpoint of PyTorch (.pt)");
  EXPECT_EQ(nameOf(zip("[Content_Types].xml")), "a workbook (.xlsx) or another office document");
  EXPECT_EQ(nameOf(zip("a.txt")), "a zip archive");
  EXPECT_EQ(nameOf("\x80\x04\x95\x10\0\0\0\0\0\0\0]\x94(K\x01K\x02"
                   "e."s),
            "a pickled object of Python");
  EXPECT_EQ(nameOf("\x02\0\0\0\0\0\0\0{}"s), "tensors of safetensors");
  EXPECT_EQ(nameOf("PAR1"s + some), "a Parquet table");
  EXPECT_EQ(nameOf("ARROW1\0\0"s + some), "an Arrow table");
  EXPECT_EQ(nameOf("\xff\xff\xff\xff\x20\0\0\0\x10\0\0\0\0\0\0\0"s + some), "an Arrow table");
  EXPECT_EQ(nameOf("\x89HDF\r\n\x1a\n"s + some), "an HDF5 file");
  EXPECT_EQ(nameOf("\x89PNG\r\n\x1a\n"s + some), "a PNG picture");
  EXPECT_EQ(nameOf("\x28\xb5\x2f\xfd"s + some), "a file packed by zstd");
  EXPECT_EQ(nameOf("\x7f"
                   "ELF"s +
                   some),
            "a program");
  EXPECT_EQ(nameOf(std::string(257, '\0') + "ustar"), "a tar archive");
  EXPECT_EQ(nameOf("\0\0\x08\x01\0\0\0\x02\x07\x08"s), "an idx file, as MNIST has them");
  EXPECT_EQ(nameOf("\0\0\x08\x01\0\0\0\x03\x07\x08"s), "");
  EXPECT_EQ(nameOf("\xff\xfe"s + utf16("name,age\n")), "text in UTF-16");
  EXPECT_EQ(nameOf("{\"text\": \"a\"}\n"), "JSON");
  EXPECT_EQ(nameOf("<!DOCTYPE html>"), "a web page");
  EXPECT_EQ(nameOf("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
            "a pointer of Git LFS, which is where the file itself is missing (git lfs pull)");
  EXPECT_EQ(nameOf("plain \xc3\xa9 words\n"), "text");
  EXPECT_EQ(nameOf("\xc3(\x01\x02"), "");
  EXPECT_EQ(nameOf(""), "");
}

// Text that ends within a character of the part that is looked at is text still.
TEST_F(Contents, LongText) {
  std::string text;
  while (text.size() < 50000)
    text += "a\xc3\xa9\xe2\x82\xac";
  EXPECT_EQ(nameOf(text), "text");
}

// Each source says what it was given instead.
TEST_F(Contents, Refusals) {
  const std::vector<InputShape> ints = {{"t", {2}, kInt, 50304}};
  write("x", "\x89PNG\r\n\x1a\n"s + std::string(64, '\x91'));
  EXPECT_EQ(refusal({"tokens", {"x"}}, ints),
            "\"DIR/x\" looks like a PNG picture, and tokens are integers; array.astype('uint16').tofile(\"FILE\") "
            "writes a file for tokens");
  EXPECT_EQ(refusal({"text", {"x"}}, ints), "\"DIR/x\" looks like a PNG picture, and text reads characters");
  EXPECT_EQ(refusal({"npy", {"x"}}, ints),
            "\"DIR/x\" is not an npy file; it looks like a PNG picture; numpy.save of an array writes one");
  write("x", "In the beginning there was a text of many words, and nobody had made tokens of it.");
  EXPECT_EQ(refusal({"tokens", {"x"}}, ints),
            "\"DIR/x\" looks like text, and tokens are integers of 16, 32 or 64 bits; text(\"FILE\") reads bytes, a "
            "tokenizer makes tokens of them");
  write("x", utf16("In the beginning there was a text."));
  EXPECT_EQ(refusal({"text", {"x"}}, ints),
            "\"DIR/x\" is text in UTF-16LE, of which text would read each half of a character; write it in UTF-8: "
            "iconv -f UTF-16LE -t UTF-8 FILE > NEW");
  write("x", bytesOfValues(std::vector<uint32_t>(40, 0x1234)));
  EXPECT_EQ(refusal({"text", {"x"}}, ints), "\"DIR/x\" looks like numbers, for of its first 160 bytes 80 are 0, and "
                                            "text has none; tokens(\"FILE\") reads tokens");
  write("x", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345678\n");
  const std::string pointer =
      "\"DIR/x\" looks like a pointer of Git LFS, which is where the file itself is missing (git lfs pull)";
  EXPECT_EQ(refusal({"text", {"x"}}, ints), pointer + ", and text reads characters");
  write("x", "");
  EXPECT_EQ(refusal({"tokens", {"x"}}, ints), "\"DIR/x\" is empty");
  write("x", "caf\xe9 \x01");
  EXPECT_TRUE(open({"text", {"x"}}, ints)) << message(); // any bytes without a form of their own
}

} // namespace
} // namespace echelon::runtime::test
