#include "runtime/data/TokenFile.h"
#include "runtime/data/Content.h"
#include "runtime/data/NpyArray.h"
#include "runtime/data/TokenWidth.h"

#include <algorithm>

namespace echelon::runtime {

namespace {

std::string bitsText(int width) { return std::to_string(8 * width) + " bits"; }

/// What `bits` says against what the file says of itself.
std::string checkBits(const TokenFile &file, int bits) {
  if (bits == 0 || bits == 8 * file.width)
    return "";
  return "\"" + file.path + "\" is " + file.text() + ", and the spec says bits = " + std::to_string(bits) +
         "; leave bits out";
}

std::string openArray(TokenFile &file) {
  NpyArray array;
  array.file = file.bytes;
  if (std::string error = parseNpy(file.path, array); !error.empty())
    return error;
  if (array.kind != 'i' && array.kind != 'u')
    return "\"" + file.path + "\" holds " + (array.kind == 'b' ? "bools" : "real numbers of " + bitsText(array.width)) +
           ", and tokens are integers; save array.astype('uint16') or 'uint32'";
  if (array.fortran && array.shape.size() > 1)
    return "\"" + file.path +
           "\" has its columns, not its rows, one after the other; save numpy.ascontiguousarray(array)";
  file.form = TokenFile::Form::Npy;
  file.start = array.start;
  file.count = array.count();
  file.width = array.width;
  file.isSigned = array.kind == 'i';
  return "";
}

/// 256 numbers of 32 bits: which form, its version, how many tokens follow.
std::string openShard(const FileContent &content, TokenFile &file) {
  const std::string quoted = "\"" + file.path + "\"";
  const std::string plain = "; write the tokens alone, as array.astype('uint16').tofile(\"FILE\") does";
  const uint32_t magic = numberAt<uint32_t>(file.bytes, 0), version = numberAt<uint32_t>(file.bytes, 4);
  const bool narrow = magic == kShardOf16Bits;
  if (!narrow && magic != kShardOf32Bits)
    return quoted + " looks like " + content.name + " (it begins with " + std::to_string(magic) +
           "), and shards of tokens begin with " + std::to_string(kShardOf16Bits) + " or " +
           std::to_string(kShardOf32Bits) + plain;
  const uint32_t known = narrow ? 1 : 7;
  if (version != known)
    return quoted + " is a shard of llm.c (" + std::to_string(magic) + ") of version " + std::to_string(version) +
           ", and version " + std::to_string(known) + " is read" + plain;
  file.form = TokenFile::Form::Shard;
  file.start = kShardHeader;
  file.width = narrow ? 2 : 4;
  file.count = numberAt<uint32_t>(file.bytes, 8);
  const uint64_t bytes = file.bytes.size() < kShardHeader ? 0 : file.bytes.size() - kShardHeader;
  if (file.bytes.size() >= kShardHeader && bytes == uint64_t(file.count) * uint64_t(file.width))
    return "";
  return quoted + " is a shard of llm.c whose header tells of " + std::to_string(file.count) + " tokens of " +
         bitsText(file.width) + ", and it has " + std::to_string(bytes) +
         " bytes after its header; it may not have been copied whole, or was written otherwise" + plain;
}

/// Megatron's index: its mark, version 1, the kind of the tokens, how many sequences and documents there are; then the
/// sequences' lengths and where each begins, in bytes.
std::string readIndex(const FileBytes &index, const std::string &path, TokenFile &file) {
  const std::string bad = "\"" + path + "\", the index of \"" + file.path + "\", ";
  const std::string plain =
      "; write the tokens alone, as array.astype('uint16').tofile(\"FILE\") does, and without an index";
  constexpr size_t kHeader = 9 + 8 + 1 + 8 + 8;
  if (index.size() < kHeader)
    return bad + "is cut off";
  const uint64_t version = numberAt<uint64_t>(index, 9), sequences = numberAt<uint64_t>(index, 18),
                 documents = numberAt<uint64_t>(index, 26);
  const int code = index.data()[17];
  if (version != 1)
    return bad + "is of version " + std::to_string(version) + ", and version 1 is read" + plain;
  constexpr struct {
    int width; // 0: no integers
    bool isSigned;
  } kKinds[] = {{0, false}, {1, false}, {1, true}, {2, true}, {4, true}, {8, true}, {0, false}, {0, false}, {2, false}};
  if (code < 0 || code >= int(std::size(kKinds)) || kKinds[code].width == 0)
    return bad + "says that its tokens are of kind " + std::to_string(code) +
           (code == 6 || code == 7 ? ", which are real numbers" : ", which is not known") + plain;
  const uint64_t left = index.size() - kHeader;
  if (sequences > left / 12 || documents > (left - 12 * sequences) / 8)
    return bad + "is cut off: it tells of " + std::to_string(sequences) + " sequences and " +
           std::to_string(documents) + " documents";
  file.form = TokenFile::Form::Megatron;
  file.width = kKinds[code].width;
  file.isSigned = kKinds[code].isSigned;
  uint64_t next = 0; // where a sequence begins when they lie one after the other
  for (uint64_t i = 0; i < sequences; ++i) {
    const int32_t length = numberAt<int32_t>(index, kHeader + 4 * i);
    if (length < 0 || numberAt<uint64_t>(index, kHeader + 4 * sequences + 8 * i) != next)
      return bad + "has sequence " + std::to_string(i) + " elsewhere than after the one before it" + plain;
    next += uint64_t(length) * uint64_t(file.width); // 31 bits times a count that the file's size bounds
  }
  if (next != file.bytes.size())
    return bad + "tells of " + std::to_string(next / uint64_t(file.width)) + " tokens of " + bitsText(file.width) +
           ", " + std::to_string(next) + " bytes, and there are " + std::to_string(file.bytes.size()) +
           "; they are not of one another, or not copied whole";
  file.count = int64_t(file.bytes.size()) / file.width;
  return "";
}

/// Whether Megatron's index lies beside the file: x.idx of x.bin.
bool hasIndex(const std::string &path, FileBytes &index, std::string &indexPath) {
  if (path.size() < 4 || path.compare(path.size() - 4, 4, ".bin") != 0)
    return false;
  indexPath = path.substr(0, path.size() - 4) + ".idx";
  return readFile(indexPath, index).empty() && contentOf(index).kind == Content::MegatronIndex;
}

std::string openPlain(const FileContent &content, int bits, int64_t below, TokenFile &file) {
  const std::string quoted = "\"" + file.path + "\"";
  const size_t size = file.bytes.size();
  if (size == 0)
    return quoted + " is empty";
  // Few characters may be tokens, and the spec's word holds; many are none.
  if (content.kind == Content::Text && (bits == 0 || size >= 64))
    return quoted + " looks like " + content.name + ", and tokens are integers of 16, 32 or 64 bits" +
           (content.name == "text" ? "; text(\"FILE\") reads bytes, a tokenizer makes tokens of them" : "");
  if (bits == 0) {
    const TokenWidth width = widthOf(file.bytes, below);
    if (width.bits == 0)
      return quoted + " does not show how wide its tokens are: " + width.why +
             "; say bits = 16, 32 or 64, as in tokens(\"FILE\", bits = 16)";
    bits = width.bits;
  }
  file.width = bits / 8;
  file.isSigned = bits == 64;
  if (size % size_t(file.width) != 0)
    return quoted + " has " + std::to_string(size) + " bytes, not a multiple of a token's " +
           std::to_string(file.width);
  file.count = int64_t(size) / file.width;
  return "";
}

} // namespace

std::string TokenFile::text() const {
  const std::string tokens = " with tokens of " + bitsText(width);
  return form == Form::Npy        ? "an array of NumPy" + tokens
         : form == Form::Shard    ? "a shard of llm.c" + tokens
         : form == Form::Megatron ? "Megatron's" + tokens
                                  : "without a header," + tokens;
}

std::string openTokenFile(const std::string &path, int bits, int64_t below, TokenFile &file) {
  file.path = path;
  if (std::string error = readFile(path, file.bytes); !error.empty())
    return error;
  FileBytes index;
  std::string indexPath, error;
  const FileContent content = contentOf(file.bytes);
  if (content.kind == Content::NpyArray)
    error = openArray(file);
  else if (content.kind == Content::TokenShard)
    error = openShard(content, file);
  else if (content.kind == Content::MegatronIndex)
    return "\"" + path + "\" is " + content.name + " and holds no tokens; name the .bin file beside it";
  else if (hasIndex(path, index, indexPath))
    error = readIndex(index, indexPath, file);
  else if (content.isBinaryForm())
    return "\"" + path + "\" looks like " + content.name +
           ", and tokens are integers; array.astype('uint16').tofile(\"FILE\") writes a file for tokens";
  else
    return openPlain(content, bits, below, file);
  return error.empty() ? checkBits(file, bits) : error;
}

std::string openTextFile(const std::string &path, TokenFile &file) {
  file.path = path;
  if (std::string error = readFile(path, file.bytes); !error.empty())
    return error;
  const FileContent content = contentOf(file.bytes);
  if (const std::string encoding = wideEncoding(file.bytes); !encoding.empty())
    return "\"" + path + "\" is text in " + encoding +
           ", of which text would read each half of a character; write it in " + "UTF-8: iconv -f " + encoding +
           " -t UTF-8 FILE > NEW";
  if (content.isBinaryForm())
    return "\"" + path + "\" looks like " + content.name + ", and text reads characters" +
           (content.kind == Content::Other ? "" : "; tokens(\"FILE\") reads tokens");
  const size_t seen = std::min<size_t>(file.bytes.size(), 1 << 16);
  const auto zeros = size_t(std::count(file.bytes.data(), file.bytes.data() + seen, 0));
  if (seen >= 16 && 8 * zeros >= seen)
    return "\"" + path + "\" looks like numbers, for of its first " + std::to_string(seen) + " bytes " +
           std::to_string(zeros) + " are 0, and text has none; tokens(\"FILE\") reads tokens";
  file.count = int64_t(file.bytes.size());
  return "";
}

} // namespace echelon::runtime
