// Kernels in the sizes of training steps, and loops as generated programs have them.
#include "runtime/kernels/Kernels.h"
#include "runtime/calibrate/Figures.h"

#include <cmath>
#include <memory>

namespace echelon::runtime {

namespace {
constexpr int64_t kScratch = 4 << 20; ///< floats of a convolution's buffer

std::string named(const char *name, std::initializer_list<int64_t> sizes) {
  std::string text = name;
  for (int64_t size : sizes)
    text += " " + std::to_string(size);
  return text;
}

__attribute__((noinline)) void triad(float *z, const float *x, const float *y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i)
    z[i] = 0.5f * x[i] + y[i];
}
__attribute__((noinline)) void adamw(float *w, float *m, float *v, const float *dw, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const float d = dw[i] * 0.5f, first = m[i] * 0.9f + d * 0.1f, second = v[i] * 0.95f + d * d * 0.05f;
    m[i] = first;
    v[i] = second;
    w[i] = w[i] * 0.9999f - first / (math::sqrt(second) + 1e-8f) * 1e-6f;
  }
}
/// As a loader puts a sample in place, whatever the layout: not a copy of the function for the steps that are asked
/// here.
#ifdef __clang__ // has no such copies, and does not know the attribute
__attribute__((noinline))
#else
__attribute__((noinline, noclone))
#endif
void place(float *to, const double *from, int64_t n, int64_t step, int64_t stepOf) {
  for (int64_t i = 0; i < n; ++i)
    to[i * step] = float(from[i * stepOf]);
}
__attribute__((noinline)) void exponentials(float *y, const float *x, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i)
    y[i] = math::exp(x[i]);
}
} // namespace

/// a grid over m, n, k; as a forward product, that of its input's derivative and that of its weights' have
/// their operands. What takes longer than half a second is left out.
void addProducts(Figures &figures, Buffers &buffers, bool few) {
  const std::vector<int64_t> grid =
      few ? std::vector<int64_t>{16, 128, 1024} : std::vector<int64_t>{8, 32, 128, 512, 2048};
  const int64_t most = grid.back() * grid.back();
  float *a = buffers.floats(most), *b = buffers.floats(most), *c = buffers.floats(most);
  for (int64_t m : grid)
    for (int64_t n : grid)
      for (int64_t k : grid) {
        if (2.0 * double(m) * double(n) * double(k) > 5e9)
          continue;
        figures.add(
            named("product", {m, n, k}),
            [=] {
              for (Form form : {Form::nn, Form::nt, Form::tn})
                gemm<float>(c, a, b, m, n, k, form);
            },
            3);
      }
}

/// By the bytes that they read and write; rows of 256 numbers, as a small model's width and characters.
void addRowKernels(Figures &figures, Buffers &buffers, bool few) {
  const std::vector<int64_t> sizes = few ? std::vector<int64_t>{64 << 10, 4 << 20}
                                         : std::vector<int64_t>{16 << 10, 128 << 10, 1 << 20, 8 << 20, 64 << 20};
  const int64_t width = 256, most = sizes.back() / 4 + width;
  float *x = buffers.floats(most), *y = buffers.floats(most), *d = buffers.floats(most);
  float *few1 = buffers.floats(most / width + 1), *few2 = buffers.floats(most / width + 1),
        *few3 = buffers.floats(most / width + 1);
  auto labels = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(most / width + 1));
  for (size_t i = 0; i < labels->size(); ++i)
    (*labels)[i] = int32_t(i * 7919 % width);
  for (int64_t bytes : sizes) {
    // rows of one, two and three arrays
    const int64_t one = bytes / 4 / width, two = bytes / 8 / width, three = bytes / 12 / width;
    figures.add(named("softmax", {8 * two * width}), [=] { softmax<float>(y, x, two, width, 1); });
    figures.add(named("normalize", {8 * two * width}), [=] { normalize<float>(y, few1, x, two, width, 1e-5); });
    figures.add(named("normalize_grad", {12 * three * width}),
                [=] { normalize_grad<float>(y, d, x, few1, three, width); });
    figures.add(named("logsumexp", {4 * one * width}), [=] { logsumexp<float>(few1, few2, few3, x, one, width, 1); });
    figures.add(named("cross_entropy", {4 * one * width}),
                [=] { cross_entropy<float>(few1, few2, few3, x, labels->data(), one, width); });
    figures.add(named("reduce", {4 * one * width}), [=] { reduce_sum<float>(d, x, 1, one, width); });
  }
  figures.add("exponential 4096", [=] { exponentials(y, x, 4096); });
  figures.add("call", [=] { reduce_sum<float>(few1, x, 1, 8, 1); });
}

/// Causal attention of heads as small models have them, by its keys; its operations are those of the scores that are
/// not masked.
void addAttention(Figures &figures, Buffers &buffers, bool few) {
  struct Shape {
    int64_t batch, head, seq, key;
  };
  std::vector<Shape> shapes = {{64, 4, 12, 16}, {16, 4, 64, 32}, {2, 6, 256, 64}};
  if (!few)
    shapes.push_back({1, 4, 1024, 64});
  for (const Shape &c : shapes) {
    const int64_t n = c.batch * c.head * c.seq * c.key, rows = c.batch * c.head * c.seq;
    float *q = buffers.floats(n), *k = buffers.floats(n), *v = buffers.floats(n), *out = buffers.floats(n),
          *d = buffers.floats(n), *dq = buffers.floats(n), *dk = buffers.floats(n), *dv = buffers.floats(n),
          *top = buffers.floats(rows), *sum = buffers.floats(rows);
    const AttentionShape s{c.batch, 1, c.head, c.seq, c.seq, c.key, c.key, 1 / std::sqrt(double(c.key)), true};
    const HeadStrides h{c.seq * c.head * c.key, 0, c.key, c.head * c.key};
    const AttentionStrides strides{h, h, h, h};
    // two products of the scores that count; a mask of twelve keys saves nothing
    const int64_t flops = 2 * c.batch * c.head * c.seq * (c.seq + 12) * c.key;
    figures.add(named("attention", {c.seq, flops}), [=] { attention<float>(out, top, sum, q, k, v, s, strides); });
    attention<float>(out, top, sum, q, k, v, s, strides);
    figures.add(named("attention_grad", {c.seq, flops * 5 / 2}),
                [=] { attention_grad<float>(dq, dk, dv, nullptr, d, out, top, sum, q, k, v, s, strides, strides); });
  }
}

/// Windows of 3 x 3 over 64 images; by operations and the bytes of both operands and the result. Forward and both
/// derivatives, one after the other.
void addConvolutions(Figures &figures, Buffers &buffers, bool few) {
  struct Shape {
    int64_t from, to, size;
  };
  std::vector<Shape> shapes = {{1, 16, 28}, {16, 32, 14}, {64, 64, 8}};
  if (!few)
    shapes.insert(shapes.end(), {{3, 16, 32}, {16, 16, 32}, {32, 32, 16}});
  constexpr int64_t kImages = 64;
  for (const Shape &c : shapes) {
    const WindowDim w{c.size, 3, 1, 1, 1};
    const ConvShape s{kImages, c.from, c.to, 2, {w, w, {}, {}}};
    const int64_t in = kImages * c.from * c.size * c.size, out = kImages * c.to * c.size * c.size,
                  weight = c.to * c.from * 9;
    float *x = buffers.floats(in), *weights = buffers.floats(weight), *y = buffers.floats(out),
          *dx = buffers.floats(in), *dw = buffers.floats(weight), *scratch = buffers.floats(kScratch);
    figures.add(
        named("convolution", {2 * out * c.from * 9, 4 * (in + out + weight)}),
        [=] {
          conv<float>(y, x, weights, s, scratch, kScratch);
          conv_grad_data<float>(dx, y, weights, s, scratch, kScratch);
          conv_grad_weights<float>(dw, x, y, s, scratch, kScratch);
        },
        3);
  }
}

/// Maxima over windows of 2 x 2, their derivative, and statistics of channels, over images; as kernels by bytes.
void addImageKernels(Figures &figures, Buffers &buffers) {
  constexpr int64_t kChannels = 16, kSide = 28;
  for (const int64_t images : {4, 128}) {
    const int64_t planes = images * kChannels, in = planes * kSide * kSide, out = in / 4;
    const PoolShape s{planes, 2, {{kSide, 2, 2, 0, 0}, {kSide, 2, 2, 0, 0}, {}, {}}};
    float *x = buffers.floats(in), *y = buffers.floats(out), *dx = buffers.floats(in), *few = buffers.floats(kChannels);
    auto index = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(out));
    figures.add(
        named("pool", {4 * (in + 2 * out)}), // read, and written with the places of the maxima
        [=] {
          maxpool<float>(y, index->data(), x, s);
          maxpool_grad<float>(dx, y, index->data(), s);
        },
        2);
    figures.add(named("channel_statistics", {4 * in}),
                [=] { channel_statistics<float>(few, x, images, kChannels, kSide * kSide, 1e-5); });
  }
}

/// A batch of bytes that lie all over a large array, made floats; by the bytes of these.
void addInputs(Figures &figures, Buffers &buffers) {
  constexpr int64_t kSamples = 40000, kBytes = 784, kBatch = 128;
  auto all = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(kSamples * kBytes), uint8_t(3));
  float *batch = buffers.floats(kBatch * kBytes);
  auto sample = std::make_shared<std::vector<double>>(static_cast<size_t>(kBytes));
  figures.add(named("input", {4 * kBatch * kBytes}), [=, next = int64_t(0)]() mutable {
    for (int64_t i = 0; i < kBatch; ++i) {
      const uint8_t *from = all->data() + (next = (next + 15013) % kSamples) * kBytes;
      for (int64_t j = 0; j < kBytes; ++j)
        (*sample)[size_t(j)] = double(from[j]) / 255;
      place(batch + i * kBytes, sample->data(), kBytes, 1, 1);
    }
  });
}

/// By all bytes read and written: what they reach depends on the cache that holds them.
void addMemory(Figures &figures, Buffers &buffers, bool few) {
  const std::vector<int64_t> sizes =
      few ? std::vector<int64_t>{32 << 10, 512 << 10, 8 << 20, 64 << 20}
          : std::vector<int64_t>{32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20, 32 << 20, 128 << 20, 256 << 20};
  const int64_t most = sizes.back() / 12 + 64;
  float *x = buffers.floats(most), *y = buffers.floats(most), *z = buffers.floats(most), *w = buffers.floats(most);
  for (int64_t bytes : sizes) {
    const int64_t n = bytes / 12, ofUpdate = bytes / 28;
    figures.add(named("memory", {bytes}), [=] { triad(z, x, y, n); });
    figures.add(named("update", {bytes}), [=] { adamw(w, z, y, x, ofUpdate); });
  }
}

} // namespace echelon::runtime
