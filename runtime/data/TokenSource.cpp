// text, tokens and next_token: a row of integers, read in windows.
#include "runtime/data/Sources.h"
#include "runtime/data/TokenFile.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace echelon::runtime {

namespace {

/// The tokens of one or more files, in their order: one stream.
struct TokenRow {
  std::vector<TokenFile> files;
  std::vector<int64_t> firsts; // of each file, then the end

  int64_t size() const { return firsts.empty() ? 0 : firsts.back(); }
  void add(TokenFile file) {
    firsts.push_back(size());
    if (files.empty())
      firsts.push_back(0);
    files.push_back(std::move(file));
    firsts.back() = firsts[files.size() - 1] + files.back().count;
  }
  void read(int64_t first, int64_t count, double *values) const {
    size_t f = size_t(std::upper_bound(firsts.begin(), firsts.end(), first) - firsts.begin()) - 1;
    for (int64_t i = 0; i < count;) {
      const TokenFile &file = files[f];
      const int64_t from = first + i - firsts[f], here = std::min(count - i, file.count - from);
      for (int64_t k = 0; k < here; ++k)
        values[i + k] = double(file.at(from + k));
      i += here;
      ++f;
    }
  }
};

/// A token as messages show it: the last numbers of 32 bits are, mostly, negative ones.
int64_t tokenAt(const TokenFile &file, int64_t i) {
  const int64_t token = file.at(i);
  const bool isNegative = file.width == 4 && token >= (int64_t(1) << 32) - (1 << 16);
  return isNegative ? int32_t(token) : file.width == 8 && !file.isSigned && token < 0 ? INT64_MAX : token;
}

/// The place of the first number outside of the bounds, all being seen; -1: there is none.
template <class T> int64_t firstOutside(const TokenFile &file, int64_t below, Bounds &bounds) {
  // The usual case, all in range, is one vectorised maximum; negative numbers are the largest there.
  T high = 0;
  for (int64_t i = 0; i < file.count; ++i) {
    T value;
    std::memcpy(&value, file.data() + i * int64_t(sizeof(T)), sizeof(T));
    high = std::max(high, value);
  }
  if (uint64_t(high) < uint64_t(below))
    return -1;
  int64_t first = -1;
  for (int64_t i = 0; i < file.count; ++i)
    if (bounds.see(tokenAt(file, i)))
      first = i;
  return first;
}

class WindowSource : public DataSource {
public:
  TokenRow row;
  int64_t length = 0; // of a window
  int64_t windows = 0, heldOut = 0;

  int64_t size(Part part) const override { return part == Part::HeldOut ? heldOut : windows - heldOut; }
  void read(Part part, int64_t sample, int output, double *values) const override {
    const int64_t window = part == Part::HeldOut ? windows - heldOut + sample : sample;
    row.read(window * length + output, length, values);
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

/// The least bound of the inputs that are filled; 0: none.
int64_t leastBound(const OpenRequest &request, size_t outputs) {
  int64_t below = 0;
  for (size_t i = 0; i < std::min(request.inputs.size(), outputs); ++i)
    if (const int64_t bound = request.inputs[i].below)
      below = below ? std::min(below, bound) : bound;
  return below;
}

/// Opens the files of `text` or `tokens`; an error message, or "".
std::string openFiles(const DataSpec &tokens, const OpenRequest &request, size_t outputs, TokenRow &row) {
  const int bits = tokens.args.empty() ? 0 : int(tokens.args[0]);
  for (const std::string &name : tokens.paths) {
    const std::string path = resolvePath(name, request.folder);
    TokenFile file;
    const std::string error = tokens.kind == "text" ? openTextFile(path, file)
                                                    : openTokenFile(path, bits, leastBound(request, outputs), file);
    if (!error.empty())
      return error;
    if (!row.files.empty() && (row.files[0].form != file.form || row.files[0].width != file.width))
      return "\"" + row.files[0].path + "\" is " + row.files[0].text() + ", \"" + path + "\" is " + file.text() +
             "; files of one stream are of one form";
    row.add(std::move(file));
  }
  return "";
}

/// What else may be meant where tokens lie beyond a bound: bytes in the other order, numbers with a sign.
std::string otherReading(const TokenFile &file, int64_t bad, int64_t below) {
  const int64_t token = file.at(bad);
  if (file.form != TokenFile::Form::Plain)
    return "";
  if (file.width == 2 && (token == 65535 || token == 65436))
    return "; as a number with a sign it is " + std::to_string(int16_t(token));
  bool swapped = (file.width == 2 || file.width == 4) && file.count >= 16;
  for (int64_t i = 0; swapped && i < file.count; ++i) {
    const int64_t value = file.at(i);
    swapped = (file.width == 2 ? int64_t(__builtin_bswap16(uint16_t(value)))
                               : int64_t(__builtin_bswap32(uint32_t(value)))) < below;
  }
  return swapped ? "; in the other order of bytes all are below it: save them little endian, as "
                   "array.astype('<u2') is"
                 : "";
}

/// Every token is below the bounds of the inputs that it fills.
bool checkTokens(const TokenRow &row, const DataSpec &tokens, const OpenRequest &request, size_t outputs,
                 DataError &error) {
  for (size_t i = 0; i < std::min(request.inputs.size(), outputs); ++i) {
    const InputShape &input = request.inputs[i];
    const int64_t below = input.below ? input.below : int64_t(1) << 31;
    if (i && input.below == request.inputs[0].below)
      continue;
    for (const TokenFile &file : row.files) {
      Bounds bounds(input);
      const int64_t bad = file.width == 1   ? firstOutside<uint8_t>(file, below, bounds)
                          : file.width == 2 ? firstOutside<uint16_t>(file, below, bounds)
                          : file.width == 4 ? firstOutside<uint32_t>(file, below, bounds)
                                            : firstOutside<uint64_t>(file, below, bounds);
      if (bad < 0)
        continue;
      const bool isByte = tokens.kind == "text";
      error = {bounds.text((isByte ? "byte " : "token ") + std::to_string(bad) + " of \"" + file.path + "\"") +
                   (isByte ? ", 256 for every byte that there is" : otherReading(file, bad, below)),
               int(i)};
      return false;
    }
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
  auto source = std::make_unique<WindowSource>();
  TokenRow &row = source->row;
  if (!(error.text = openFiles(tokens, request, outputs, row)).empty() ||
      !checkSequences(request, outputs, source->length, error))
    return nullptr;
  const int64_t further = shifted ? 1 : 0, needed = source->length + further; // labels lie one further
  if (row.size() < needed) {
    error.text = "\"" + row.files.at(0).path + "\" has " + std::to_string(row.size()) + " tokens" +
                 (row.files.size() > 1 ? " with those after it" : "") + ", fewer than the " + std::to_string(needed) +
                 " of one sample";
    return nullptr;
  }
  source->windows = (row.size() - further) / source->length;
  if (shifted && !request.spec.args.empty())
    error.text = holdOut(request.spec.args[0], *source);
  if (!error.text.empty() || !checkTokens(row, tokens, request, outputs, error))
    return nullptr;
  source->setOutputs(int(outputs));
  return source;
}

} // namespace echelon::runtime
