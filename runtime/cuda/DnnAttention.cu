// Attention by the library: what it is given, and its trial.
#include "runtime/cuda/DnnAttentionShape.h"
#include "runtime/cuda/DnnCheck.h"
#include "runtime/cuda/DnnChoice.h"
#include "runtime/kernels/Elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace echelon::cuda {

namespace {

using Plan = DnnPlan<DnnAttentionOperands>;

__global__ void log_sums(float *to, const float *maximum, const float *sum, int64_t count) {
  if (element() < count)
    to[element()] = maximum[element()] + runtime::math::log(sum[element()]);
}

__global__ void ones(float *to, int64_t count) {
  if (element() < count)
    to[element()] = 1.0f;
}

/// Rows first, first + 1, … of each head become 0.
template <typename T>
__global__ void clear_rows(T *to, int64_t count, int64_t heads, int64_t first, int64_t rows, int64_t width,
                           DnnStrides strides) {
  if (element() < count) {
    const int64_t row = element() / width, slice = row / rows;
    to[slice / heads * strides.batch + slice % heads * strides.head + (first + row % rows) * strides.row +
       element() % width] = T(0.0f);
  }
}

int64_t extentOf(const DnnStrides &s, int64_t batch, int64_t heads, int64_t rows, int64_t width) {
  return (batch - 1) * s.batch + (heads - 1) * s.head + (rows - 1) * s.row + width;
}

/// Arrays of attention: sizes, and elements from the first to the last.
struct Sizes {
  const DnnAttention &of;
  int64_t past; // keys, with those that no query sees

  int64_t queries() const { return of.batch * of.heads * of.seq; }
  int64_t ofQueries(const DnnStrides &s, int64_t width) const { return extentOf(s, of.batch, of.heads, of.seq, width); }
  int64_t ofKeys(const DnnStrides &s, int64_t width) const { return extentOf(s, of.batch, of.keyHeads, past, width); }
};

/// The arguments of a pass, for the samples from `first` on.
template <typename T> struct Pass {
  const T *q, *k, *v;
  T *out; // read by the derivative
  const T *dout = nullptr;
  T *dq = nullptr, *dk = nullptr, *dv = nullptr;

  DnnAttentionOperands from(const DnnAttention &of, float *logSum, int64_t first) const {
    const auto at = [&](auto *x, const DnnStrides &s) { return x ? x + first * s.batch : x; };
    return {at(q, of.q),       at(k, of.k),   at(v, of.v),   at(out, of.out), logSum + first * of.heads * of.seq,
            at(dout, of.dout), at(dq, of.dq), at(dk, of.dk), at(dv, of.dv)};
  }
};

/// Runs the plan on all samples.
template <typename T>
bool runAll(Stream stream, Plan &plan, int64_t samples, const DnnAttention &of, const Pass<T> &pass, float *logSum,
            void *workspace, std::string &why) {
  for (int64_t first = 0; first < of.batch; first += samples)
    if (!plan.run(stream, pass.from(of, logSum, first), workspace, why))
      return false;
  return true;
}

template <typename T>
bool runForward(Stream stream, Plan &plan, int64_t samples, const DnnAttention &of, int64_t past, const Pass<T> &pass,
                float *maximum, float *sum, void *workspace, std::string &why) {
  const Sizes sizes = {of, past};
  touches(stream, "attention", out(pass.out, sizes.ofQueries(of.out, of.value)), out(maximum, sizes.queries()),
          in(pass.q, sizes.ofQueries(of.q, of.key)), in(pass.k, sizes.ofKeys(of.k, of.key)),
          in(pass.v, sizes.ofKeys(of.v, of.value)));
  if (!runAll(stream, plan, samples, of, pass, maximum, workspace, why))
    return false;
  launch("attention", ones, cover(sizes.queries()), stream, out(sum, sizes.queries()), sizes.queries());
  return true;
}

/// logSum: scratch for (batch, heads, seq).
template <typename T>
bool runGradient(Stream stream, Plan &plan, int64_t samples, const DnnAttention &of, int64_t past, const Pass<T> &pass,
                 const float *maximum, const float *sum, float *logSum, void *workspace, std::string &why) {
  const Sizes sizes = {of, past};
  const int64_t queries = sizes.queries();
  launch("attention_grad", log_sums, cover(queries), stream, out(logSum, queries), in(maximum, queries),
         in(sum, queries), queries);
  touches(stream, "attention_grad", out(pass.dq, sizes.ofQueries(of.dq, of.key)),
          out(pass.dk, sizes.ofKeys(of.dk, of.key)), out(pass.dv, sizes.ofKeys(of.dv, of.value)),
          in(pass.q, sizes.ofQueries(of.q, of.key)), in(pass.k, sizes.ofKeys(of.k, of.key)),
          in(pass.v, sizes.ofKeys(of.v, of.value)), in(pass.out, sizes.ofQueries(of.out, of.value)),
          in(pass.dout, sizes.ofQueries(of.dout, of.value)), in(logSum, queries));
  if (!runAll(stream, plan, samples, of, pass, logSum, workspace, why))
    return false;
  if (const int64_t unseen = past - of.past; unseen > 0) {
    const auto clear = [&](T *to, const DnnStrides &s, int64_t width) {
      const int64_t count = of.batch * of.keyHeads * unseen * width;
      launch("attention_grad", clear_rows<T>, cover(count), stream, out(to, sizes.ofKeys(s, width)), count, of.keyHeads,
             of.past, unseen, width, s);
    };
    clear(pass.dk, of.dk, of.key);
    clear(pass.dv, of.dv, of.value);
  }
  return true;
}

template <typename T> constexpr DnnType typeOf() { return std::is_same_v<T, bf16> ? DnnType::bf16 : DnnType::fp16; }

constexpr size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

std::vector<int64_t> keyOf(const DnnAttention &of, int64_t past, bool isGradient) {
  int32_t scale;
  std::memcpy(&scale, &of.scale, sizeof scale);
  std::vector<int64_t> key = {
      isGradient, int64_t(of.type), int64_t(of.sight), of.batch, of.heads, of.keyHeads, of.seq, of.past,
      past,       of.key,           of.value,          scale};
  for (const DnnStrides &s : {of.q, of.k, of.v, of.out, of.dout, of.dq, of.dk, of.dv})
    key.insert(key.end(), {s.batch, s.head, s.row});
  return key;
}

std::string describe(const DnnAttention &of, bool isGradient) {
  std::string text = std::string(isGradient ? "derivative of attention" : "attention") + " in " +
                     (of.type == DnnType::bf16 ? "bf16" : "fp16") + ", " + std::to_string(of.batch) + " x " +
                     std::to_string(of.heads) + " heads of " + std::to_string(of.key);
  if (of.keyHeads != of.heads)
    text += " (" + std::to_string(of.keyHeads) + " of keys)";
  return text + ", " + std::to_string(of.seq) + " x " + std::to_string(of.past);
}

} // namespace

//===-- the trial of a shape -------------------------------------------------------------------------------------===//

/// Both ways on random values, of two samples at most.
namespace {

template <typename T> struct Trial : DnnTrial {
  static constexpr int64_t kSamples = 2;

  AttentionShape shape;
  const AttentionStrides &strides;
  const AttentionStrides *grads;
  DnnAttention of;
  Sizes sizes;

  Trial(Stream stream, const DnnAttention &whole, const AttentionShape &shape, const AttentionStrides &strides,
        const AttentionStrides *grads)
      : DnnTrial(stream), shape(shape), strides(strides), grads(grads), of(whole), sizes{of, shape.past} {
    this->shape.batch = of.batch = std::min(whole.batch, kSamples);
  }

  bool isSame(const T *a, const T *b, int64_t heads, int64_t rows, int64_t width, const DnnStrides &by) {
    return DnnTrial::isSame(difference_of(stream, a, b, of.batch, heads, rows, width, by));
  }

  bool passes(Plan &plan, int64_t samples) {
    // Scores of a standard deviation near 1.5: some weights are near 1, so that a key too many or too few is seen.
    const double width = static_cast<double>(shape.key), scale = std::fabs(shape.scale);
    const double size = scale > 0 ? std::clamp(4.5 / (scale * std::sqrt(width)), 0.0625, 16.0) : 1.0;
    const T *q = make<T>(sizes.ofQueries(of.q, of.key), size, 1), *k = make<T>(sizes.ofKeys(of.k, of.key), 1, 2),
            *v = make<T>(sizes.ofKeys(of.v, of.value), 1, 3);
    const int64_t count = sizes.ofQueries(of.out, of.value), queries = sizes.queries();
    T *own = make<T>(count);
    float *maximum = make<float>(queries), *sum = make<float>(queries), *logSum = make<float>(queries);
    cuda::attention<T>(stream, own, maximum, sum, q, k, v, shape, strides);
    void *workspace = make<std::byte>(static_cast<int64_t>(plan.workspace() + 256));
    if (grads)
      return passesGradient(plan, samples, {q, k, v, own}, maximum, sum, workspace);

    T *outs[2] = {make<T>(count), make<T>(count)};
    float *tops[2] = {make<float>(queries), make<float>(queries)}, *sums = make<float>(queries);
    for (int i : {0, 1})
      if (!runForward<T>(stream, plan, samples, of, shape.past, {q, k, v, outs[i]}, tops[i], sums, workspace, why))
        return false;
    launch("attention", log_sums, cover(queries), stream, cuda::out(logSum, queries),
           in(static_cast<const float *>(maximum), queries), in(static_cast<const float *>(sum), queries), queries);
    return isNear("the result", difference_of<T>(stream, outs[0], own, of.batch, of.heads, of.seq, of.value, of.out),
                  allowed(of.type)) &&
           isNear("the logarithm of the sum",
                  difference_of<float>(stream, tops[0], logSum, 1, 1, 1, queries, {queries, queries, queries}),
                  {0x1p-12, 0x1p-10}) &&
           isSame(outs[0], outs[1], of.heads, of.seq, of.value, of.out);
  }

  bool passesGradient(Plan &plan, int64_t samples, const Pass<T> &forward, const float *maximum, const float *sum,
                      void *workspace) {
    Pass<T> passes[3]; // our own, and the library's twice
    const T *dout = make<T>(sizes.ofQueries(of.dout, of.value), 1, 4);
    for (Pass<T> &pass : passes) {
      pass = forward;
      pass.dout = dout;
      pass.dq = make<T>(sizes.ofQueries(of.dq, of.key));
      pass.dk = make<T>(sizes.ofKeys(of.dk, of.key));
      pass.dv = make<T>(sizes.ofKeys(of.dv, of.value));
    }
    const auto &[own, first, second] = passes;
    cuda::attention_grad<T>(stream, own.dq, own.dk, own.dv, nullptr, dout, forward.out, maximum, sum, forward.q,
                            forward.k, forward.v, shape, strides, *grads, nullptr, nullptr,
                            make<float>(attention_grad_scratch(shape, *grads)));
    float *logSum = make<float>(sizes.queries());
    for (const Pass<T> *pass : {&first, &second})
      if (!runGradient<T>(stream, plan, samples, of, shape.past, *pass, maximum, sum, logSum, workspace, why))
        return false;
    const auto holds = [&](const char *what, const T *a, const T *again, const T *reference, int64_t heads,
                           int64_t rows, int64_t width, const DnnStrides &by) {
      return isNear(what, difference_of(stream, a, reference, of.batch, heads, rows, width, by), allowed(of.type)) &&
             isSame(a, again, heads, rows, width, by);
    };
    return holds("dq", first.dq, second.dq, own.dq, of.heads, of.seq, of.key, of.dq) &&
           holds("dk", first.dk, second.dk, own.dk, of.keyHeads, shape.past, of.key, of.dk) &&
           holds("dv", first.dv, second.dv, own.dv, of.keyHeads, shape.past, of.value, of.dv);
  }
};

} // namespace

//===-- the choice -----------------------------------------------------------------------------------------------===//

DnnChoice::AttentionEntry DnnChoice::planFor(DnnAttention of, bool isGradient, std::string &why) {
  const int64_t batch = of.batch;
  while (true) {
    AttentionEntry entry = {library->plan(of, isGradient, why), of.batch};
    const size_t bytes = entry.plan ? entry.plan->workspace() : 0;
    if (bytes <= workspace || (of.batch == 1 && bytes <= mostWorkspace))
      return entry;
    if (of.batch == 1) {
      why = "a workspace of " + std::to_string(bytes >> 20) + " MB";
      return {};
    }
    const int64_t fits =
        std::max<int64_t>(1, static_cast<int64_t>(double(of.batch) * double(workspace) / double(bytes)));
    of.batch = std::min(of.batch - 1, fits);
    while (batch % of.batch)
      --of.batch;
  }
}

template <typename T>
DnnChoice::AttentionEntry DnnChoice::choose(Stream stream, const DnnAttention &of, const AttentionShape &shape,
                                            const AttentionStrides &strides, const AttentionStrides *grads) {
  const std::string what = describe(of, grads != nullptr);
  std::string why;
  Trial<T> trial(stream, of, shape, strides, grads);
  AttentionEntry entry = planFor(trial.of, grads != nullptr, why);
  if (entry.plan && !trial.passes(*entry.plan, entry.samples)) {
    why = trial.why;
    entry = {};
  }
  if (entry.plan && of.batch != trial.of.batch)
    entry = planFor(of, grads != nullptr, why);
  tell(what, entry.plan != nullptr, why, trial.found.overall,
       entry.samples < of.batch ? ", " + std::to_string(entry.samples) + " samples at a time" : "");
  return entry;
}

template <typename T>
DnnChoice::AttentionEntry *DnnChoice::entryFor(Stream stream, const DnnAttention &of, const AttentionShape &shape,
                                               const AttentionStrides &strides, const AttentionStrides *grads) {
  return find(attentions, keyOf(of, shape.past, grads != nullptr), stream,
              [&] { return choose<T>(stream, of, shape, strides, grads); });
}

template <typename T>
bool DnnChoice::attention(Stream stream, const Scratch &scratch, T *out, float *maximum, float *sum, const T *q,
                          const T *k, const T *v, const AttentionShape &shape, const AttentionStrides &strides) {
  const std::optional<DnnAttention> of = dnn_attention_of(typeOf<T>(), shape, strides);
  if (!of || !areAligned(out, maximum, q, k, v))
    return false;
  AttentionEntry *entry = entryFor<T>(stream, *of, shape, strides, nullptr);
  if (!entry)
    return false;
  std::string why;
  if (runForward<T>(stream, *entry->plan, entry->samples, *of, shape.past, {q, k, v, out}, maximum, sum,
                    scratch(entry->plan->workspace()), why))
    return true;
  entry->hasFailed = true;
  tellFailure(describe(*of, false), why);
  return false;
}

template <typename T>
bool DnnChoice::attention_grad(Stream stream, const Scratch &scratch, T *dq, T *dk, T *dv, const T *dout, const T *out,
                               const float *maximum, const float *sum, const T *q, const T *k, const T *v,
                               const AttentionShape &shape, const AttentionStrides &strides,
                               const AttentionStrides &grads) {
  const std::optional<DnnAttention> of = dnn_attention_of(typeOf<T>(), shape, strides, &grads);
  if (!of || !areAligned(dq, dk, dv, dout, out, q, k, v))
    return false;
  AttentionEntry *entry = entryFor<T>(stream, *of, shape, strides, &grads);
  if (!entry)
    return false;
  const size_t sums = aligned(static_cast<size_t>(of->batch * of->heads * of->seq) * sizeof(float));
  std::byte *memory = static_cast<std::byte *>(scratch(sums + entry->plan->workspace()));
  std::string why;
  if (runGradient<T>(stream, *entry->plan, entry->samples, *of, shape.past,
                     {q, k, v, const_cast<T *>(out), dout, dq, dk, dv}, maximum, sum, reinterpret_cast<float *>(memory),
                     memory + sums, why))
    return true;
  entry->hasFailed = true;
  tellFailure(describe(*of, true), why);
  return false;
}

#define INSTANTIATE(T)                                                                                                 \
  template bool DnnChoice::attention<T>(Stream, const Scratch &, T *, float *, float *, const T *, const T *,          \
                                        const T *, const AttentionShape &, const AttentionStrides &);                  \
  template bool DnnChoice::attention_grad<T>(                                                                          \
      Stream, const Scratch &, T *, T *, T *, const T *, const T *, const float *, const float *, const T *,           \
      const T *, const T *, const AttentionShape &, const AttentionStrides &, const AttentionStrides &);
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE

} // namespace echelon::cuda
