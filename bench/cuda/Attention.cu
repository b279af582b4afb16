// Attention by cuDNN beside our own kernels, on this machine's GPU: a row a class of shapes, forward and derivative in
// bf16 and fp16, with how far the results are apart (as DnnCheck.h has it) and what each takes. Ends with 1 where cuDNN
// computes less than it should.
#include "runtime/cuda/DnnAttentionShape.h"
#include "runtime/cuda/DnnCheck.h"
#include "runtime/cuda/DnnChoice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace echelon::cuda {
namespace {

struct Row {
  const char *name;
  AttentionShape shape;
  bool isGrouped = false; // the heads of a group read one head of keys
};

double scaleOf(int64_t key) { return 1 / std::sqrt(static_cast<double>(key)); }

std::vector<Row> rows() {
  return {{"GPT-2, 8 samples", {8, 1, 12, 1024, 1024, 64, 64, scaleOf(64), true}},
          {"GPT-2, 64 samples", {64, 1, 12, 1024, 1024, 64, 64, scaleOf(64), true}},
          {"heads of 128, 4096 long", {4, 1, 16, 4096, 4096, 128, 128, scaleOf(128), true}},
          {"8 heads of keys for 32", {2, 8, 4, 2048, 2048, 128, 128, scaleOf(128), true}, true},
          {"1 head of keys for 16", {4, 1, 16, 1024, 1024, 64, 64, scaleOf(64), true}, true},
          {"all keys", {8, 1, 12, 1024, 1024, 64, 64, scaleOf(64), false}},
          {"of another sequence", {8, 1, 12, 512, 200, 64, 64, scaleOf(64), false}},
          {"odd lengths", {4, 1, 12, 999, 999, 64, 64, scaleOf(64), true}},
          {"second of four parts", {8, 1, 12, 256, 1024, 64, 64, scaleOf(64), true, 256}},
          {"last of four parts", {8, 1, 12, 256, 1024, 64, 64, scaleOf(64), true, 768}},
          {"heads of 40", {8, 1, 12, 512, 512, 40, 40, scaleOf(40), true}},
          {"heads of 96", {8, 1, 12, 512, 512, 96, 96, scaleOf(96), true}},
          {"heads of 64, values of 128", {8, 1, 12, 512, 512, 64, 128, scaleOf(64), true}},
          {"heads of 256", {4, 1, 8, 512, 512, 256, 256, scaleOf(256), true}}};
}

/// (batch, rows, group, head, width), dense.
HeadStrides storage(const AttentionShape &s, int64_t rows, int64_t width, bool isGrouped = false) {
  const int64_t heads = isGrouped ? 1 : s.head;
  return {rows * s.group * heads * width, heads * width, isGrouped ? 0 : width, s.group * heads * width};
}

class Memory {
public:
  ~Memory() {
    for (void *x : all)
      cudaFree(x);
  }
  template <typename T> T *make(int64_t count) {
    void *x = nullptr;
    check(cudaMalloc(&x, static_cast<size_t>(count) * sizeof(T)), "cudaMalloc");
    check(cudaMemset(x, 0xff, static_cast<size_t>(count) * sizeof(T)), "cudaMemset"); // NaN
    all.push_back(x);
    return static_cast<T *>(x);
  }

private:
  std::vector<void *> all;
};

/// Milliseconds of a run, the median of 7 after one that is not counted.
template <typename Body> double millisecondsOf(Stream stream, Body body) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < 8; ++i) {
    check(cudaEventRecord(begin, stream), "event");
    body();
    check(cudaEventRecord(end, stream), "event");
    check(cudaEventSynchronize(end), "event");
    float time = 0;
    check(cudaEventElapsedTime(&time, begin, end), "event");
    if (i > 0)
      times.push_back(time);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Whether cuDNN computes both passes.
template <typename T> bool compare(Stream stream, const Row &row, const char *type) {
  const AttentionShape &s = row.shape;
  const HeadStrides q = storage(s, s.seq, s.key), k = storage(s, s.past, s.key, row.isGrouped),
                    v = storage(s, s.past, s.value, row.isGrouped), out = storage(s, s.seq, s.value);
  const AttentionStrides strides = {q, k, v, out};
  const int64_t queries = s.batch * s.group * s.head * s.seq;
  Memory memory;
  uint64_t seed = 0;
  const auto operand = [&](const HeadStrides &by, double size) {
    T *x = memory.make<T>(s.batch * by.batch);
    fill_trial(stream, x, s.batch * by.batch, size, ++seed);
    return x;
  };
  const T *onQ = operand(q, 4.5), *onK = operand(k, 1), *onV = operand(v, 1), *dout = operand(out, 1);
  T *outs[2], *dq[2], *dk[2], *dv[2];
  float *maximum[2], *sum[2];
  for (int i : {0, 1}) {
    outs[i] = memory.make<T>(s.batch * out.batch), dq[i] = memory.make<T>(s.batch * q.batch);
    dk[i] = memory.make<T>(s.batch * k.batch), dv[i] = memory.make<T>(s.batch * v.batch);
    maximum[i] = memory.make<float>(queries), sum[i] = memory.make<float>(queries);
  }
  float *scratch = memory.make<float>(attention_grad_scratch(s, strides));
  void *lent = nullptr;
  size_t lentBytes = 0;
  const auto lend = [&](size_t bytes) {
    if (bytes > lentBytes)
      lent = memory.make<std::byte>(static_cast<int64_t>(lentBytes = bytes));
    return lent;
  };

  DnnChoice choice(openDnnForDevice, [](const std::string &line) { std::printf("  %s\n", line.c_str()); }, true);
  const auto byCudnn = [&] {
    return choice.attention<T>(stream, lend, outs[0], maximum[0], sum[0], onQ, onK, onV, s, strides);
  };
  const auto gradByCudnn = [&] {
    return choice.attention_grad<T>(stream, lend, dq[0], dk[0], dv[0], dout, outs[0], maximum[0], sum[0], onQ, onK, onV,
                                    s, strides, strides);
  };
  const auto own = [&] { attention<T>(stream, outs[1], maximum[1], sum[1], onQ, onK, onV, s, strides); };
  const auto gradOwn = [&] {
    attention_grad<T>(stream, dq[1], dk[1], dv[1], nullptr, dout, outs[1], maximum[1], sum[1], onQ, onK, onV, s,
                      strides, strides, nullptr, nullptr, scratch);
  };
  own();
  gradOwn();
  if (!byCudnn() || !gradByCudnn()) {
    std::printf("%-27s %s  not by cuDNN\n", row.name, type);
    return false;
  }
  const DnnAttention of = *dnn_attention_of(DnnType::bf16, s, strides, &strides);
  const auto apart = [&](T *const(&x)[2], int64_t heads, int64_t rows, int64_t width, const DnnStrides &by) {
    return difference_of<T>(stream, x[0], x[1], s.batch, heads, rows, width, by).overall;
  };
  const double outApart = apart(outs, of.heads, s.seq, s.value, of.out);
  const double gradApart =
      std::max({apart(dq, of.heads, s.seq, s.key, of.dq), apart(dk, of.keyHeads, s.past, s.key, of.dk),
                apart(dv, of.keyHeads, s.past, s.value, of.dv)});
  std::printf("%-27s %s  %.1e  %8.3f %8.3f   %.1e  %8.3f %8.3f\n", row.name, type, outApart,
              millisecondsOf(stream, byCudnn), millisecondsOf(stream, own), gradApart,
              millisecondsOf(stream, gradByCudnn), millisecondsOf(stream, gradOwn));
  return true;
}

int run() {
  Stream stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  std::printf("%-33s  apart     cuDNN      own   apart     cuDNN      own   (ms; forward, derivative)\n", "");
  bool allTaken = true;
  for (const Row &row : rows()) {
    allTaken &= compare<bf16>(stream, row, "bf16");
    allTaken &= compare<fp16>(stream, row, "fp16");
  }
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return allTaken ? 0 : 1;
}

} // namespace
} // namespace echelon::cuda

int main() { return echelon::cuda::run(); }
