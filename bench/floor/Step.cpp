#include "Step.h"
#include <algorithm>
#include <cblas.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <dnnl.h>
#include <thread>

namespace echelon::bench {

Buffer::Buffer(int64_t n, float spread) : count(n) {
  void *block = mmap(nullptr, n * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) {
    std::fprintf(stderr, "bench_floor: no memory\n");
    std::exit(1);
  }
  madvise(block, n * 4, MADV_HUGEPAGE);
  start = static_cast<float *>(block);
  uint32_t state = 1;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525 + 1013904223;
    start[i] = spread * (float(state >> 8) / (1 << 23) - 1);
  }
}

Buffer::~Buffer() {
  if (start)
    munmap(start, count * 4);
}

// Spreads that keep values of size one along the chain of products, far from denormals and from infinity.
Weight::Weight(int64_t from, int64_t to)
    : w(from * to, std::sqrt(3.0f / float(from))), g(from * to, 0), m(from * to, 0), v(from * to, 0) {}

Layer::Layer(const Sizes &s, int heads, int inner)
    : qkv(s.width, 3L * heads * (s.width / s.heads)), proj(int64_t(heads) * (s.width / s.heads), s.width),
      up(s.width, inner), down(inner, s.width), in(int64_t(s.batch) * s.length * s.width, 1),
      qkvOut(int64_t(s.batch) * s.length * 3 * heads * (s.width / s.heads), 1),
      score(int64_t(s.batch) * heads * s.length * s.length, 1),
      mixed(int64_t(s.batch) * s.length * heads * (s.width / s.heads), 1),
      between(int64_t(s.batch) * s.length * s.width, 1), upOut(int64_t(s.batch) * s.length * inner, 1) {}

namespace {
int share(int n, const Sizes &s) { return s.columns ? n / s.ways + (s.part < n % s.ways) : n; }
int64_t otherParameters(const Sizes &s) {
  int64_t perLayer = 4L * s.width + (3L * s.width + s.width + 4L * s.width + s.width); // norms and biases
  return (int64_t(s.length) * s.width + s.layers * perLayer + 2L * s.width) / (s.columns ? s.ways : 1);
}
} // namespace

Step::Step(const Sizes &s, Library library, int threads)
    : sizes(s), library(library), threads(threads), heads(share(s.heads, s)), key(s.width / s.heads),
      inner(share(4 * s.width, s)), words(share(s.words, s)), tokens(int64_t(s.batch) * s.length),
      embedding(words, s.width), others(1, otherParameters(s)), x(tokens * s.width, 1), y(tokens * s.width, 1),
      dx(tokens * s.width, 1), dmixed(tokens * heads * key, 1), dqkv(tokens * 3 * heads * key, 1),
      dscore(int64_t(s.batch) * heads * s.length * s.length, 1), dup(tokens * inner, 1), logits(tokens * words, 1) {
  for (int layer = 0; layer < s.layers; ++layer)
    layers.emplace_back(s, heads, inner);
  for (int64_t i = 0; i < tokens; ++i)
    labels.push_back(int(i * 7919 % words));
}

void Step::product(float *c, const float *a, const float *b, int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                   int64_t lda, int64_t ldb, int64_t ldc, float alpha) {
  if (library == Library::onednn)
    dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, 0, c, ldc);
  else
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, int(m), int(n), int(k),
                alpha, a, int(lda), b, int(ldb), 0, c, int(ldc));
}

void Step::dense(float *out, const float *in, const Weight &weight, int64_t from, int64_t to) {
  product(out, in, weight.w.get(), tokens, to, from, false, false, from, to, to);
}

void Step::denseGrad(float *din, Weight &weight, const float *in, const float *dout, int64_t from, int64_t to) {
  product(din, dout, weight.w.get(), tokens, from, to, false, true, to, to, from);
  product(weight.g.get(), in, dout, from, to, tokens, true, false, from, to, to);
}

// A sample and a head at a time; q, k and v are beside one another in the rows of qkv.
void Step::attention(Layer &layer) {
  const int64_t l = sizes.length, across = int64_t(heads) * key, row = 3 * across;
  for (int64_t b = 0; b < sizes.batch; ++b)
    for (int64_t h = 0; h < heads; ++h) {
      const float *q = layer.qkvOut.get() + b * l * row + h * key, *k = q + across, *v = k + across;
      float *score = layer.score.get() + (b * heads + h) * l * l;
      product(score, q, k, l, l, key, false, true, row, row, l, 1 / std::sqrt(float(key)));
      product(layer.mixed.get() + b * l * across + h * key, score, v, l, key, l, false, false, l, row, across,
              1 / std::sqrt(float(l)));
    }
}

void Step::attentionGrad(Layer &layer) {
  const int64_t l = sizes.length, across = int64_t(heads) * key, row = 3 * across;
  const float ofKey = 1 / std::sqrt(float(key)), ofLength = 1 / std::sqrt(float(l));
  for (int64_t b = 0; b < sizes.batch; ++b)
    for (int64_t h = 0; h < heads; ++h) {
      const float *q = layer.qkvOut.get() + b * l * row + h * key, *k = q + across, *v = k + across;
      const float *dout = dmixed.get() + b * l * across + h * key;
      float *score = layer.score.get() + (b * heads + h) * l * l, *ds = dscore.get() + (b * heads + h) * l * l;
      float *dq = dqkv.get() + b * l * row + h * key, *dk = dq + across, *dv = dk + across;
      product(dv, score, dout, l, key, l, true, false, l, across, row, ofLength);
      product(ds, dout, v, l, l, key, false, true, across, row, l, ofKey);
      product(dq, ds, k, l, key, l, false, false, l, row, row, ofLength);
      product(dk, ds, q, l, key, l, true, false, l, row, row, ofLength);
    }
}

namespace {
/// A row of logits becomes the derivative of the mean of the cross-entropies.
void lossRow(float *row, int words, int label, float factor) {
  float highest = row[0], sum = 0;
#pragma omp simd reduction(max : highest)
  for (int i = 0; i < words; ++i)
    highest = std::max(highest, row[i]);
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < words; ++i) {
    row[i] = std::exp(row[i] - highest);
    sum += row[i];
  }
  const float scale = factor / sum;
  for (int i = 0; i < words; ++i)
    row[i] *= scale;
  row[label] -= factor;
}

struct Adam {
  float rate, decay, beta1, beta2, first, second;
};

void adam(float *__restrict w, const float *__restrict g, float *__restrict m, float *__restrict v, int64_t n, Adam a) {
  for (int64_t i = 0; i < n; ++i) {
    m[i] = a.beta1 * m[i] + (1 - a.beta1) * g[i];
    v[i] = a.beta2 * v[i] + (1 - a.beta2) * g[i] * g[i];
    w[i] -= a.rate * (m[i] * a.first / (std::sqrt(v[i] * a.second) + 1e-8f) + a.decay * w[i]);
  }
}

/// f(from, to) of as many pieces of 0 … n as there are threads.
template <typename F> void divided(int threads, int64_t n, F f) {
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t)
    others.emplace_back(f, n * t / threads, n * (t + 1) / threads);
  f(0, n / threads);
  for (std::thread &other : others)
    other.join();
}
} // namespace

void Step::loss() {
  divided(threads, tokens, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i)
      lossRow(logits.get() + i * words, words, labels[size_t(i)], 1 / float(tokens));
  });
}

// Without `columns` each process has all parameters and updates its part of them.
void Step::update(Weight &weight) {
  const double t = double(steps);
  const Adam a{1e-9f, 0.1f, 0.9f, 0.95f, float(1 / (1 - std::pow(0.9, t))), float(1 / (1 - std::pow(0.95, t)))};
  const int64_t all = weight.w.size();
  const int64_t begin = sizes.columns ? 0 : all * sizes.part / sizes.ways;
  const int64_t end = sizes.columns ? all : all * (sizes.part + 1) / sizes.ways;
  divided(threads, end - begin, [&](int64_t from, int64_t to) {
    from += begin, to += begin;
    adam(weight.w.get() + from, weight.g.get() + from, weight.m.get() + from, weight.v.get() + from, to - from, a);
  });
}

void Step::run() {
  const int64_t width = sizes.width, across = int64_t(heads) * key;
  ++steps;
  for (size_t i = 0; i < layers.size(); ++i) {
    Layer &layer = layers[i];
    dense(layer.qkvOut.get(), layer.in.get(), layer.qkv, width, 3 * across);
    attention(layer);
    dense(layer.between.get(), layer.mixed.get(), layer.proj, across, width);
    dense(layer.upOut.get(), layer.between.get(), layer.up, width, inner);
    dense(i + 1 < layers.size() ? layers[i + 1].in.get() : x.get(), layer.upOut.get(), layer.down, inner, width);
  }
  product(logits.get(), x.get(), embedding.w.get(), tokens, words, width, false, true, width, width, words);
  loss();
  product(dx.get(), logits.get(), embedding.w.get(), tokens, width, words, false, false, words, width, width);
  product(embedding.g.get(), logits.get(), x.get(), words, width, tokens, true, false, words, width, width);
  for (size_t i = layers.size(); i-- > 0;) {
    Layer &layer = layers[i];
    denseGrad(dup.get(), layer.down, layer.upOut.get(), dx.get(), inner, width);
    denseGrad(y.get(), layer.up, layer.between.get(), dup.get(), width, inner);
    denseGrad(dmixed.get(), layer.proj, layer.mixed.get(), y.get(), across, width);
    attentionGrad(layer);
    denseGrad(dx.get(), layer.qkv, layer.in.get(), dqkv.get(), width, 3 * across);
  }
  for (Layer &layer : layers)
    for (Weight *weight : {&layer.qkv, &layer.proj, &layer.up, &layer.down})
      update(*weight);
  update(embedding);
  update(others);
}

} // namespace echelon::bench
