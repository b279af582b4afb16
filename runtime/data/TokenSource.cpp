// text, tokens and next_token: a row of integers, read in windows.
#include "runtime/data/File.h"
#include "runtime/data/Sources.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace echelon::runtime {

namespace {

/// width: bytes of one token, little endian.
struct TokenRow {
  FileBytes file;
  int width = 1;

  int64_t size() const { return int64_t(file.size()) / width; }
  uint32_t at(int64_t i) const {
    const uint8_t *p = file.data() + i * width;
    uint32_t value = 0;
    for (int b = 0; b < width; ++b)
      value |= uint32_t(p[b]) << (8 * b);
    return value;
  }
};

/// The place of the first number outside of the bounds, all being seen; -1: there is none.
template <class T> int64_t firstOutside(const uint8_t *bytes, int64_t count, int64_t below, Bounds &bounds) {
  // The usual case, all in range, is one vectorised maximum.
  T high = 0;
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * int64_t(sizeof(T)), sizeof(T));
    high = std::max(high, value);
  }
  if (int64_t(high) < below)
    return -1;
  int64_t first = -1;
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * int64_t(sizeof(T)), sizeof(T));
    if (bounds.see(value))
      first = i;
  }
  return first;
}

/// A file of 16-bit tokens reads as 32-bit ones only if every second token is 0.
bool looksLike32Bits(const FileBytes &file) {
  const size_t words = std::min<size_t>(file.size(), 1 << 16) / 4;
  if (file.size() % 4 != 0 || words == 0)
    return false;
  bool anyLow = false;
  for (size_t i = 0; i < words; ++i) {
    if (file.data()[4 * i + 2] || file.data()[4 * i + 3])
      return false;
    anyLow |= file.data()[4 * i] || file.data()[4 * i + 1];
  }
  return anyLow;
}

class WindowSource : public DataSource {
public:
  TokenRow row;
  int64_t length = 0; // of a window
  int64_t windows = 0, heldOut = 0;

  int64_t size(Part part) const override { return part == Part::HeldOut ? heldOut : windows - heldOut; }
  void read(Part part, int64_t sample, int output, double *values) const override {
    const int64_t window = part == Part::HeldOut ? windows - heldOut + sample : sample;
    const int64_t first = window * length + output;
    for (int64_t i = 0; i < length; ++i)
      values[i] = row.at(first + i);
  }
  void setOutputs(int count) {
    for (int i = 0; i < count; ++i)
      outputShapes.push_back({{length}, ElementType::Int32});
  }
};

/// The inputs take sequences of one length, which is a window's; false, with `error` set, where they do not.
bool checkSequences(const OpenRequest &request, size_t outputs, int64_t &length, DataError &error) {
  for (size_t i = 0; i < std::min(request.inputs.size(), outputs); ++i) {
    const InputShape &input = request.inputs[i];
    if (input.dims.size() != 1 || (i == 1 && input.dims != request.inputs[0].dims)) {
      error = {request.spec.kind + " gives " + (i ? dimsText(request.inputs[0].dims) : "one sequence a sample") + ", " +
                   input.name + " is " + dimsText(input.dims),
               int(i)};
      return false;
    }
    length = input.dims[0];
  }
  if (length == 0)
    error.text = request.spec.kind + " needs an input that says the sequence's length";
  return length != 0;
}

/// Bytes of one token of a file of `tokens`.
int widthOf(const DataSpec &tokens, const OpenRequest &request, size_t outputs, const FileBytes &file) {
  if (!tokens.args.empty())
    return int(tokens.args[0]) / 8;
  int64_t below = 0; // the least bound; 0: none
  for (size_t i = 0; i < std::min(request.inputs.size(), outputs); ++i)
    below = below ? std::min(below, request.inputs[i].below) : request.inputs[i].below;
  return below > 65536 || looksLike32Bits(file) ? 4 : 2;
}

/// Every token is below the bounds of the inputs that it fills.
bool checkTokens(const TokenRow &row, const std::string &path, const OpenRequest &request, size_t outputs,
                 DataError &error) {
  const uint8_t *data = row.file.data();
  for (size_t i = 0; i < std::min(request.inputs.size(), outputs); ++i) {
    const InputShape &input = request.inputs[i];
    const int64_t below = input.below ? input.below : int64_t(1) << 31;
    Bounds bounds(input);
    const int64_t bad = row.width == 1   ? firstOutside<uint8_t>(data, row.size(), below, bounds)
                        : row.width == 2 ? firstOutside<uint16_t>(data, row.size(), below, bounds)
                                         : firstOutside<uint32_t>(data, row.size(), below, bounds);
    if (bad < 0)
      continue;
    error = {bounds.text((row.width == 1 ? "byte " : "token ") + std::to_string(bad) + " of \"" + path + "\"") +
                 (row.width == 1 ? ", 256 for every byte that there is" : ""),
             int(i)};
    return false;
  }
  return true;
}

/// Windows kept for evaluation, at their end. 29 % of 100 are 29, although 0.29 * 100 is a little less in binary.
std::string holdOut(double share, WindowSource &source) {
  if (!(share >= 0 && share <= 1))
    return "holdout lies between 0 % and 100 %";
  source.heldOut = int64_t(std::floor(share * double(source.windows) + 1e-9));
  return source.heldOut < source.windows ? "" : "holdout leaves nothing to train on";
}

} // namespace

std::unique_ptr<DataSource> openTokens(const OpenRequest &request, DataError &error) {
  const bool shifted = request.spec.kind == "next_token";
  const DataSpec &tokens = shifted ? request.spec.children.at(0) : request.spec;
  const size_t outputs = shifted ? 2 : 1;
  if (tokens.kind != "text" && tokens.kind != "tokens") {
    error.text = "next_token takes text(…) or tokens(…), not " + tokens.kind;
    return nullptr;
  }
  const std::string path = resolvePath(tokens.paths.at(0), request.folder);
  auto source = std::make_unique<WindowSource>();
  TokenRow &row = source->row;
  if (!(error.text = readFile(path, row.file)).empty() || !checkSequences(request, outputs, source->length, error))
    return nullptr;
  if (tokens.kind == "tokens")
    row.width = widthOf(tokens, request, outputs, row.file);
  if (row.file.size() % size_t(row.width) != 0) {
    error.text = "\"" + path + "\" has " + std::to_string(row.file.size()) + " bytes, not a multiple of a token's " +
                 std::to_string(row.width);
    return nullptr;
  }
  const int64_t further = shifted ? 1 : 0, needed = source->length + further; // labels lie one further
  if (row.size() < needed) {
    error.text = "\"" + path + "\" has " + std::to_string(row.size()) + " tokens, fewer than the " +
                 std::to_string(needed) + " of one sample";
    return nullptr;
  }
  source->windows = (row.size() - further) / source->length;
  if (shifted && !request.spec.args.empty())
    error.text = holdOut(request.spec.args[0], *source);
  if (!error.text.empty() || !checkTokens(row, path, request, outputs, error))
    return nullptr;
  source->setOutputs(int(outputs));
  return source;
}

} // namespace echelon::runtime
