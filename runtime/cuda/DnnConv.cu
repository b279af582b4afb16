// Convolutions of floats by the library, in the layout that buffers have: it needs no copies.
#include "runtime/cuda/DnnCheck.h"
#include "runtime/cuda/DnnChoice.h"

#include <algorithm>

namespace echelon::cuda {

namespace {

/// Elements of x, w and y.
struct ConvSizes {
  int64_t x, w, y;
  explicit ConvSizes(const ConvShape &shape) {
    const ConvColumns c(shape, ConvKind::forward);
    x = shape.batch * shape.from * c.in, w = shape.to * c.inner, y = shape.batch * shape.to * c.out;
  }
  int64_t ofFirst(ConvKind kind) const { return kind == ConvKind::forward ? x : y; }
  int64_t ofSecond(ConvKind kind) const { return kind == ConvKind::gradWeights ? x : w; }
  int64_t ofResult(ConvKind kind) const { return kind == ConvKind::forward ? y : kind == ConvKind::gradData ? x : w; }
};

const char *nameOf(ConvKind kind) {
  return kind == ConvKind::forward    ? "convolution"
         : kind == ConvKind::gradData ? "derivative of a convolution for its input"
                                      : "derivative of a convolution for its weights";
}

std::string describe(const ConvShape &shape, ConvKind kind) {
  std::string text = std::string(nameOf(kind)) + ", " + std::to_string(shape.batch) + " x " +
                     std::to_string(shape.from) + " to " + std::to_string(shape.to) + " channels, ";
  for (int k = 0; k < shape.rank; ++k)
    text += (k ? " x " : "") + std::to_string(shape.dims[k].in);
  text += " by windows of ";
  for (int k = 0; k < shape.rank; ++k)
    text += (k ? " x " : "") + std::to_string(shape.dims[k].window);
  return text;
}

/// Whether the library is asked: 1 to 3 window dimensions, zeros around x and none cut off, and more than what one
/// product of matrices does, or a plan is not worth.
bool isCovered(const ConvShape &shape) {
  constexpr int64_t kLeast = int64_t(1) << 20; // multiply-adds
  if (shape.rank < 1 || shape.rank > 3 || std::min({shape.batch, shape.from, shape.to}) <= 0)
    return false;
  for (int k = 0; k < shape.rank; ++k) {
    const runtime::WindowDim &d = shape.dims[k];
    if (d.padLow < 0 || d.padHigh < 0 || d.in <= 0 || d.window <= 0 || d.out() <= 0)
      return false;
  }
  const ConvColumns c(shape, ConvKind::forward);
  return !c.isPointwise && shape.batch * shape.to * c.out * c.inner >= kLeast;
}

/// With two window dimensions at least.
ConvShape widened(const ConvShape &shape) {
  if (shape.rank > 1)
    return shape;
  return {shape.batch, shape.from, shape.to, 2, {{1, 1, 1, 0, 0}, shape.dims[0]}};
}

bool run(Stream stream, DnnPlan<DnnConvOperands> &plan, const ConvShape &shape, ConvKind kind, const float *first,
         const float *second, float *result, void *workspace, std::string &why) {
  const ConvSizes sizes(shape);
  touches(stream, "conv", out(result, sizes.ofResult(kind)), in(first, sizes.ofFirst(kind)),
          in(second, sizes.ofSecond(kind)));
  return plan.run(stream, {first, second, result}, workspace, why);
}

/// Floats: sums of some thousand products in another order are within 1e-6, and products of rounded numbers (tf32) are
/// not within 1e-4.
constexpr Difference kAllowed = {1e-5, 1e-4};

} // namespace

DnnChoice::ConvEntry DnnChoice::choose(Blas &blas, Stream stream, const ConvShape &shape, ConvKind kind) {
  ConvShape few = shape;
  few.batch = std::min<int64_t>(shape.batch, 2);
  std::string why;
  DnnTrial trial(stream);
  ConvEntry entry = {library->plan(widened(few), kind, convWorkspace, why), few.batch};
  if (entry.plan) {
    const ConvSizes sizes(few);
    const int64_t count = sizes.ofResult(kind), scratchCount = conv_scratch(few, kind);
    const float *first = trial.make<float>(sizes.ofFirst(kind), 1, 1),
                *second = trial.make<float>(sizes.ofSecond(kind), 1, 2);
    float *own = trial.make<float>(count), *scratch = trial.make<float>(std::max<int64_t>(scratchCount, 1)),
          *results[2] = {trial.make<float>(count), trial.make<float>(count)};
    if (kind == ConvKind::forward)
      cuda::conv(blas, stream, own, first, second, few, scratch, scratchCount);
    else if (kind == ConvKind::gradData)
      cuda::conv_grad_data(blas, stream, own, first, second, few, scratch, scratchCount);
    else
      cuda::conv_grad_weights(blas, stream, own, second, first, few, scratch, scratchCount);
    void *workspace = trial.make<std::byte>(static_cast<int64_t>(entry.plan->workspace() + 256));
    bool passes = true;
    for (float *result : results)
      passes = passes && run(stream, *entry.plan, few, kind, first, second, result, workspace, trial.why);
    const DnnStrides dense = {count, count, count};
    passes =
        passes &&
        trial.isNear("the result", difference_of<float>(stream, results[0], own, 1, 1, 1, count, dense), kAllowed) &&
        trial.isSame(difference_of<float>(stream, results[0], results[1], 1, 1, 1, count, dense));
    why = trial.why;
    if (!passes)
      entry = {};
    else if (few.batch != shape.batch)
      entry = {library->plan(widened(shape), kind, convWorkspace, why), shape.batch};
  }
  tell(describe(shape, kind), entry.plan != nullptr, why, trial.found.overall, "");
  return entry;
}

bool DnnChoice::conv(Blas &blas, Stream stream, const Scratch &scratch, const float *first, const float *second,
                     float *result, const ConvShape &shape, ConvKind kind) {
  if (!isCovered(shape) || !areAligned(first, second, result)) // slices of a stack may begin anywhere
    return false;
  std::vector<int64_t> key = {int64_t(kind), shape.batch, shape.from, shape.to};
  for (int k = 0; k < shape.rank; ++k) {
    const runtime::WindowDim &d = shape.dims[k];
    key.insert(key.end(), {d.in, d.window, d.stride, d.padLow, d.padHigh});
  }
  ConvEntry *entry = find(convs, key, stream, [&] { return choose(blas, stream, shape, kind); });
  if (!entry)
    return false;
  std::string why;
  if (run(stream, *entry->plan, shape, kind, first, second, result, scratch(entry->plan->workspace()), why))
    return true;
  entry->hasFailed = true;
  tellFailure(describe(shape, kind), why);
  return false;
}

} // namespace echelon::cuda
