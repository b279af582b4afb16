// Data computed from (seed, index): uniform tokens, and digits with their sorted order.
#include "runtime/data/Sources.h"
#include "runtime/random/Philox.h"

#include <algorithm>

namespace echelon::runtime {

namespace {

/// A uniform integer below `below`, from 32 random bits.
int64_t uniformBelow(const RandomKey &key, uint64_t index, int64_t below) {
  return int64_t(uint64_t(bits_at(key, index)) * uint64_t(below) >> 32);
}

/// The held-out stream is another one than the training stream.
RandomKey keyOf(uint64_t seed, Part part) {
  return {seed, part == Part::HeldOut ? path_hash("data.synthetic.held_out") : path_hash("data.synthetic"), 0};
}

/// Windows of length + 1 uniform tokens: output 0 is the window, output 1 one further, as next_token has it.
class TokensSource : public DataSource {
public:
  TokensSource(uint64_t seed, int64_t length, int64_t below, size_t outputs)
      : seed(seed), length(length), below(below) {
    outputShapes.assign(outputs, {{length}, ElementType::Int32});
  }
  int64_t size(Part) const override { return kUnlimited; }
  void read(Part part, int64_t sample, int output, double *values) const override {
    const RandomKey key = keyOf(seed, part);
    for (int64_t i = 0; i < length; ++i)
      values[i] = double(uniformBelow(key, uint64_t(sample * (length + 1) + output + i), below));
  }

private:
  uint64_t seed;
  int64_t length, below;
};

/// Outputs: the digits; the answer behind a start token; the answer, which is the digits sorted.
class SortedDigitsSource : public DataSource {
public:
  static constexpr int kDigits = 12, kStart = 10;

  explicit SortedDigitsSource(uint64_t seed) : seed(seed) { outputShapes.assign(3, {{kDigits}, ElementType::Int32}); }
  int64_t size(Part) const override { return kUnlimited; }
  void read(Part part, int64_t sample, int output, double *values) const override {
    const RandomKey key = keyOf(seed, part);
    for (int i = 0; i < kDigits; ++i)
      values[i] = double(uniformBelow(key, uint64_t(sample * kDigits + i), 10));
    if (output == 0)
      return;
    std::sort(values, values + kDigits);
    if (output == 1) {
      std::copy_backward(values, values + kDigits - 1, values + kDigits);
      values[0] = kStart;
    }
  }

private:
  uint64_t seed;
};

} // namespace

std::unique_ptr<DataSource> openSynthetic(const OpenRequest &request, DataError &error) {
  if (request.spec.name == "tokens") {
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      const InputShape &input = request.inputs[i];
      if (input.dims.size() != 1 || input.below == 0 || input.dims != request.inputs[0].dims ||
          input.below != request.inputs[0].below) {
        error = {"synthetic(tokens) gives one sequence of tokens and its labels, as `int below` the same axis; " +
                     input.name + " is " + dimsText(input.dims),
                 int(i)};
        return nullptr;
      }
    }
    if (request.inputs.empty() || request.inputs.size() > 2) {
      error.text = "synthetic(tokens) fills one input or two, not " + std::to_string(request.inputs.size());
      return nullptr;
    }
    return std::make_unique<TokensSource>(request.seed, request.inputs[0].dims[0], request.inputs[0].below,
                                          request.inputs.size());
  }
  if (request.spec.name == "sorted_digits") {
    auto source = std::make_unique<SortedDigitsSource>(request.seed);
    for (size_t i = 0; i < request.inputs.size() && i < 3; ++i) {
      const InputShape &input = request.inputs[i];
      if (input.dims != source->outputs()[i].dims) {
        error = {"synthetic(sorted_digits) gives " + dimsText(source->outputs()[i].dims) + ", " + input.name + " is " +
                     dimsText(input.dims),
                 int(i)};
        return nullptr;
      }
      Bounds bounds(input);
      bounds.see(0);
      if (bounds.see(i == 1 ? SortedDigitsSource::kStart : 9)) {
        error = {bounds.text("the largest token of synthetic(sorted_digits)"), int(i)};
        return nullptr;
      }
    }
    return source;
  }
  error.text = "there is no synthetic(" + request.spec.name + "); there are tokens and sorted_digits";
  return nullptr;
}

} // namespace echelon::runtime
