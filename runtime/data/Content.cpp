#include "runtime/data/Content.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace echelon::runtime {

namespace {

using namespace std::string_view_literals;

/// Enough of a file to tell characters from numbers.
constexpr size_t kSample = 1 << 14;

std::string_view beginning(const FileBytes &file) {
  return {reinterpret_cast<const char *>(file.data()), std::min(file.size(), kSample)};
}

bool startsWith(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

struct Signature {
  std::string_view bytes;
  size_t at;
  const char *name;
};

/// Four bytes or more each: of numbers, one file in 4 billion begins so.
constexpr Signature kSignatures[] = {
    {"\x89PNG\r\n\x1a\n"sv, 0, "a PNG picture"},
    {"\xff\xd8\xff\xe0"sv, 0, "a JPEG picture"},
    {"\xff\xd8\xff\xe1"sv, 0, "a JPEG picture"},
    {"\xff\xd8\xff\xdb"sv, 0, "a JPEG picture"},
    {"GIF89a"sv, 0, "a GIF picture"},
    {"GIF87a"sv, 0, "a GIF picture"},
    {"WEBPVP8"sv, 8, "a WebP picture"},
    {"WAVEfmt "sv, 8, "a WAV sound"},
    {"PAR1"sv, 0, "a Parquet table"},
    {"ARROW1\0\0"sv, 0, "an Arrow table"},
    {"\x89HDF\r\n\x1a\n"sv, 0, "an HDF5 file"},
    {"\x28\xb5\x2f\xfd"sv, 0, "a file packed by zstd"},
    {"\xfd"
     "7zXZ\0"sv,
     0, "a file packed by xz"},
    {"1AY&SY"sv, 4, "a file packed by bzip2"},
    {"\x04\x22\x4d\x18"sv, 0, "a file packed by lz4"},
    {"7z\xbc\xaf\x27\x1c"sv, 0, "a 7z archive"},
    {"ustar"sv, 257, "a tar archive"},
    {"\x7f"
     "ELF"sv,
     0, "a program"},
    {"%PDF-"sv, 0, "a PDF document"},
    {"SQLite format 3\0"sv, 0, "an SQLite database"},
    {"MATLAB 5.0 MAT-file"sv, 0, "a MATLAB file"},
    {"version https://git-lfs.github.com/spec/"sv, 0,
     "a pointer of Git LFS, which is where the file itself is missing (git lfs pull)"},
    {"GGUF"sv, 0, "a model of llama.cpp (GGUF)"},
    {"TNTIDX\0\0"sv, 0, "an index of fairseq or an early Megatron (.idx)"},
};

/// A zip archive: the name of its first file says whose.
const char *zipName(std::string_view head) {
  const size_t length = head.size() < 30 ? 0 : uint8_t(head[26]) | size_t(uint8_t(head[27])) << 8;
  const std::string_view first = head.size() < 30 ? ""sv : head.substr(30, length);
  auto has = [&](std::string_view word) { return first.find(word) != first.npos; };
  return has(".npy")                                                     ? "arrays of numpy.savez (.npz)"
         : has("data.pkl") || has("byteorder") || has(".format_version") ? "a checkpoint of PyTorch (.pt)"
         : has("[Content_Types]") || has("_rels") || has("docProps") ? "a workbook (.xlsx) or another office document"
                                                                     : "a zip archive";
}

bool isPickle(const FileBytes &file, std::string_view head) {
  if (head.size() < 4 || head[0] != '\x80' || head[1] < 2 || head[1] > 5 || file.data()[file.size() - 1] != '.')
    return false;
  return head[1] >= 4 ? head[2] == '\x95' : "}](cXq\x8a"sv.find(head[2]) != std::string_view::npos;
}

bool isSafetensors(const FileBytes &file, std::string_view head) {
  if (head.size() < 10)
    return false;
  const uint64_t length = numberAt<uint64_t>(file, 0);
  return length >= 2 && length <= file.size() - 8 && head[8] == '{' && (head[9] == '"' || head[9] == '}');
}

/// What Hugging Face's data sets are stored as: a mark of ones, the length of what describes the table.
bool isArrowStream(const FileBytes &file, std::string_view head) {
  if (head.size() < 16 || !startsWith(head, "\xff\xff\xff\xff"))
    return false;
  const uint32_t length = numberAt<uint32_t>(file, 4), root = numberAt<uint32_t>(file, 8);
  return length % 8 == 0 && length >= 16 && length <= file.size() - 8 && root % 4 == 0 && root >= 4 && root < length;
}

/// An idx file, as MNIST has them: its sizes say exactly how long it is.
bool isIdx(const FileBytes &file, std::string_view head) {
  if (head.size() < 8 || head[0] || head[1] || head[2] < 8 || head[2] > 14 || head[3] < 1 || head[3] > 4)
    return false;
  const size_t rank = size_t(head[3]), header = 4 + 4 * rank;
  if (head.size() < header)
    return false;
  uint64_t bytes = head[2] <= 9 ? 1 : head[2] == 11 ? 2 : head[2] == 14 ? 8 : 4;
  for (size_t i = 0; i < rank; ++i) {
    const uint8_t *p = file.data() + 4 + 4 * i;
    const uint64_t size = uint64_t(p[0]) << 24 | uint64_t(p[1]) << 16 | uint64_t(p[2]) << 8 | p[3];
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return false;
  }
  return bytes == file.size() - header;
}

/// The header of a file of llm.c: a date, a version, a count, mostly zeros.
const char *shardName(const FileBytes &file) {
  if (file.size() < 12)
    return nullptr;
  const uint32_t date = numberAt<uint32_t>(file, 0), month = date / 100 % 100, day = date % 100;
  if (date < 20230101 || date > 20391231 || month < 1 || month > 12 || day < 1 || day > 31)
    return nullptr;
  // A model's header has ten numbers or so.
  for (size_t i = 32; i < 256; ++i)
    if (4 * i + 4 <= file.size() && numberAt<uint32_t>(file, 4 * i) != 0)
      return nullptr;
  return date == kShardOf16Bits || date == kShardOf32Bits ? "a shard of tokens of llm.c or modded-nanogpt"
         : date == 20240522                               ? "an evaluation set of llm.c"
         : date == 20240326                               ? "a model of llm.c"
         : date == 20240327                               ? "a test state of llm.c"
         : date == 20240328                               ? "a tokenizer of llm.c"
                                                          : "a file with a header as llm.c writes them";
}

/// Whether it is UTF-8 without control characters; what the sample cuts off is none's fault.
bool isUtf8Text(std::string_view text, bool cut) {
  for (size_t i = 0; i < text.size();) {
    const uint8_t lead = uint8_t(text[i]);
    if (lead < 0x20 ? !std::strchr("\t\n\r\f\x1b", lead) || lead == 0 : lead == 0x7f)
      return false;
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xc2 && lead < 0xe0 ? 2
                          : lead >= 0xe0 && lead < 0xf0 ? 3
                          : lead >= 0xf0 && lead < 0xf5 ? 4
                                                        : 0;
    if (length == 0)
      return false;
    if (i + length > text.size())
      return cut;
    for (size_t k = 1; k < length; ++k)
      if ((uint8_t(text[i + k]) & 0xc0) != 0x80)
        return false;
    i += length;
  }
  return !text.empty();
}

std::string textName(std::string_view text) {
  const size_t first = text.find_first_not_of("\xEF\xBB\xBF \t\r\n");
  const std::string_view begin = first == text.npos ? ""sv : text.substr(first, 16);
  if (startsWith(begin, "<!DOCTYPE") || startsWith(begin, "<!doctype") || startsWith(begin, "<html"))
    return "a web page";
  if (startsWith(begin, "<?xml"))
    return "XML";
  if (startsWith(begin, "{\"") || startsWith(begin, "[{") || startsWith(begin, "{\n") || startsWith(begin, "[["))
    return "JSON";
  return "text";
}

/// Marked text of two bytes a character: units without control characters after the mark.
bool isMarkedUtf16(std::string_view head) {
  const bool little = startsWith(head, "\xff\xfe"), big = startsWith(head, "\xfe\xff");
  if (!little && !big)
    return false;
  size_t units = 0;
  for (size_t i = 2; i + 1 < head.size(); i += 2, ++units) {
    const unsigned unit = uint8_t(head[i + (little ? 1 : 0)]) << 8 | uint8_t(head[i + (little ? 0 : 1)]);
    const bool isZero = unit == 0 && (i - 2) % 4 == 2; // of four bytes a character
    if (unit < 0x20 && unit != '\t' && unit != '\n' && unit != '\r' && !isZero)
      return false;
  }
  return units >= 2;
}

} // namespace

std::string wideEncoding(const FileBytes &file) {
  const std::string_view head = beginning(file);
  if (isMarkedUtf16(head))
    return startsWith(head, "\xff\xfe\0\0"sv) ? "UTF-32" : "UTF-16";
  if (head.size() < 8 || file.size() % 2 != 0)
    return "";
  for (size_t zero : {0, 1}) { // the place of the zeros
    size_t zeros = 0, characters = 0, pairs = head.size() / 2;
    for (size_t i = 0; i < pairs; ++i) {
      zeros += head[2 * i + zero] == 0;
      const uint8_t other = uint8_t(head[2 * i + 1 - zero]);
      characters += (other >= 0x20 && other != 0x7f) || other == '\t' || other == '\n' || other == '\r';
    }
    if (characters == pairs && 2 * zeros > pairs)
      return zero ? "UTF-16LE" : "UTF-16BE";
  }
  return "";
}

FileContent contentOf(const FileBytes &file) {
  const std::string_view head = beginning(file);
  if (head.empty())
    return {};
  if (startsWith(head, "\x93NUMPY"))
    return {Content::NpyArray, "an array of NumPy (.npy)"};
  if (startsWith(head, {kMegatronMagic, sizeof(kMegatronMagic)}))
    return {Content::MegatronIndex, "an index of Megatron (.idx)"};
  if (const char *shard = shardName(file))
    return {Content::TokenShard, shard};
  for (const Signature &signature : kSignatures)
    if (head.size() >= signature.at && startsWith(head.substr(signature.at), signature.bytes))
      return {Content::Other, signature.name};
  if (startsWith(head, "PK\x03\x04"))
    return {Content::Other, zipName(head)};
  if (startsWith(head, "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"))
    return {Content::Other, "a checkpoint of PyTorch (.pt)"};
  if (isPickle(file, head))
    return {Content::Other, "a pickled object of Python"};
  if (isSafetensors(file, head))
    return {Content::Other, "tensors of safetensors"};
  if (isArrowStream(file, head))
    return {Content::Other, "an Arrow table"};
  if (isIdx(file, head))
    return {Content::Other, "an idx file, as MNIST has them"};
  if (isMarkedUtf16(head))
    return {Content::Utf16, "text in " + wideEncoding(file)};
  if (isUtf8Text(head, head.size() < file.size()))
    return {Content::Text, textName(head)};
  return {};
}

std::string looksLike(const FileBytes &file) {
  if (file.size() == 0)
    return "; it is empty";
  const std::string name = contentOf(file).name;
  return name.empty() ? "" : "; it looks like " + name;
}

} // namespace echelon::runtime
