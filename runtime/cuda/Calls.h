// Calls of programs whose kernels need more than the stream: products their plans, others memory to work in.
#pragma once
#include "runtime/cuda/Attention.h"
#include "runtime/cuda/Collectives.h"
#include "runtime/cuda/Conv.h"
#include "runtime/cuda/Finite.h"
#include "runtime/cuda/Gather.h"
#include "runtime/cuda/Rank.h"

#include <initializer_list>

namespace echelon::cuda {

template <typename C, typename T, typename... More>
void gemm(Rank &r, C *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form, More... more) {
  gemm(static_cast<Blas &>(r), static_cast<Stream>(r), c, a, b, m, n, k, form, more...);
}
template <typename T, typename... More>
void linear(Rank &r, T *c, const T *a, const T *b, const T *bias, int64_t m, int64_t n, int64_t k, Form form,
            More... more) {
  linear(static_cast<Blas &>(r), static_cast<Stream>(r), c, a, b, bias, m, n, k, form, more...);
}
template <typename C, typename T>
void gemm_batched(Rank &r, C *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, Form form, int64_t lda,
                  int64_t ldb, int64_t ldc, std::initializer_list<BatchDim> batch, double alpha, double beta) {
  gemm_batched(static_cast<Blas &>(r), static_cast<Stream>(r), c, a, b, m, n, k, form, lda, ldb, ldc, batch, alpha,
               beta);
}

template <typename T>
void scatter_add_rows(Rank &r, T *table, const T *d, const int32_t *index, int64_t count, int64_t width, int32_t lo,
                      int32_t hi) {
  scatter_add_rows(static_cast<Stream>(r), table, d, index, count, width, lo, hi,
                   r.scratch<std::byte>(scatter_scratch(count)));
}
template <typename T>
void scatter_add(Rank &r, T *source, const T *d, std::initializer_list<GatherDim> dims,
                 std::initializer_list<GatherIndex> indices) {
  scatter_add(static_cast<Stream>(r), source, d, dims, indices, r.scratch<std::byte>(scatter_scratch(dims, indices)));
}

/// What cuDNN works in.
inline DnnChoice::Scratch scratch_of(Rank &r) {
  return [&r](size_t bytes) { return r.scratch<std::byte>(static_cast<int64_t>(bytes)); };
}

/// Whether cuDNN has computed a convolution of floats, or a derivative of it.
template <typename T>
bool conv_by_dnn(Rank &r, const T *first, const T *second, T *result, const ConvShape &shape, ConvKind kind) {
  if constexpr (std::is_same_v<T, float>)
    return r.dnn().conv(r, r, scratch_of(r), first, second, result, shape, kind);
  return false;
}
template <typename T> void conv(Rank &r, T *y, const T *x, const T *w, const ConvShape &shape) {
  if (conv_by_dnn(r, x, w, y, shape, ConvKind::forward))
    return;
  const int64_t count = conv_scratch(shape, ConvKind::forward);
  conv(static_cast<Blas &>(r), static_cast<Stream>(r), y, x, w, shape, r.scratch<T>(count), count);
}
template <typename T> void conv_grad_data(Rank &r, T *dx, const T *dy, const T *w, const ConvShape &shape) {
  if (conv_by_dnn(r, dy, w, dx, shape, ConvKind::gradData))
    return;
  const int64_t count = conv_scratch(shape, ConvKind::gradData);
  conv_grad_data(static_cast<Blas &>(r), static_cast<Stream>(r), dx, dy, w, shape, r.scratch<T>(count), count);
}
template <typename T> void conv_grad_weights(Rank &r, T *dw, const T *x, const T *dy, const ConvShape &shape) {
  if (conv_by_dnn(r, dy, x, dw, shape, ConvKind::gradWeights))
    return;
  const int64_t count = conv_scratch(shape, ConvKind::gradWeights);
  conv_grad_weights(static_cast<Blas &>(r), static_cast<Stream>(r), dw, x, dy, shape, r.scratch<T>(count), count);
}

template <typename T>
void attention(Rank &r, T *out, Wide<T> *maximum, Wide<T> *sum, const T *q, const T *k, const T *v,
               const AttentionShape &shape, const AttentionStrides &strides, const uint8_t *mask = nullptr,
               const T *bias = nullptr) {
  if constexpr (runtime::isNarrow<T>) {
    if (!mask && !bias && r.dnn().attention<T>(r, scratch_of(r), out, maximum, sum, q, k, v, shape, strides))
      return;
  }
  attention(static_cast<Stream>(r), out, maximum, sum, q, k, v, shape, strides, mask, bias);
}
template <typename T>
void attention_grad(Rank &r, T *dq, T *dk, T *dv, T *dbias, const T *dout, const T *out, const Wide<T> *maximum,
                    const Wide<T> *sum, const T *q, const T *k, const T *v, const AttentionShape &shape,
                    const AttentionStrides &strides, const AttentionStrides &grads, const uint8_t *mask = nullptr,
                    const T *bias = nullptr) {
  if constexpr (runtime::isNarrow<T>) {
    if (!mask && !bias &&
        r.dnn().attention_grad<T>(r, scratch_of(r), dq, dk, dv, dout, out, maximum, sum, q, k, v, shape, strides,
                                  grads))
      return;
  }
  attention_grad(static_cast<Stream>(r), dq, dk, dv, dbias, dout, out, maximum, sum, q, k, v, shape, strides, grads,
                 mask, bias, r.scratch<Wide<T>>(attention_grad_scratch(shape, grads)));
}

template <typename T> const double *add_squares(Rank &r, double *sum, const T *x, int64_t n, double weight = 1) {
  add_squares(static_cast<Stream>(r), sum, x, n, weight, r.scratch<double>(kSquaresScratch));
  return sum;
}

/// A gradient of a norm over many: x (n), and how often it counts.
template <typename T> struct Watched {
  const char *parameter;
  const T *x;
  int64_t n;
  double weight = 1;
};
/// sum[0] += weight * sum of x[i]^2 of each. The first after which it is not finite is remembered.
template <typename T> void add_squares(Rank &r, double *sum, std::initializer_list<Watched<T>> gradients) {
  std::vector<Squared<T>> squared;
  std::vector<const char *> parameters;
  for (const Watched<T> &gradient : gradients) {
    squared.push_back({gradient.x, gradient.n, gradient.weight});
    parameters.push_back(gradient.parameter);
  }
  r.watch(sum, squared, parameters);
}

template <typename T, size_t N>
void fill_random(Rank &r, T *y, const RandomKey &key, Distribution kind, double a, double b,
                 const SliceAxis (&axes)[N]) {
  fill_random(static_cast<Stream>(r), y, key.step, key.seed, key.path, kind, a, b, axes);
}

//===-- collectives ----------------------------------------------------------------------------------------------===//

using runtime::callOf;
using runtime::Collective;
using runtime::innerCallOf;

template <typename T>
void all_reduce(Rank &r, const Group &g, T *data, int64_t count, ReduceOp op, const CollectiveOptions &options = {}) {
  r.collectives().run(g, callOf<T>(Collective::AllReduce, data, data, count, op, 0, options.label), options.algorithm);
}
template <typename T>
Ticket all_reduce_start(Rank &r, const Group &g, T *data, int64_t count, ReduceOp op,
                        const CollectiveOptions &options = {}) {
  return r.collectives().start(g, callOf<T>(Collective::AllReduce, data, data, count, op, 0, options.label),
                               options.algorithm);
}

template <typename T>
void reduce_scatter(Rank &r, const Group &g, T *out, const T *in, int64_t count, ReduceOp op,
                    const CollectiveOptions &options = {}) {
  r.collectives().run(g, callOf<T>(Collective::ReduceScatter, in, out, count, op, 0, options.label), options.algorithm);
}
template <typename T>
Ticket reduce_scatter_start(Rank &r, const Group &g, T *out, const T *in, int64_t count, ReduceOp op,
                            const CollectiveOptions &options = {}) {
  return r.collectives().start(g, callOf<T>(Collective::ReduceScatter, in, out, count, op, 0, options.label),
                               options.algorithm);
}

template <typename T>
void all_gather(Rank &r, const Group &g, T *out, const T *in, int64_t count, const CollectiveOptions &options = {}) {
  r.collectives().run(g, callOf<T>(Collective::AllGather, in, out, count, Sum, 0, options.label), options.algorithm);
}
template <typename T>
Ticket all_gather_start(Rank &r, const Group &g, T *out, const T *in, int64_t count,
                        const CollectiveOptions &options = {}) {
  return r.collectives().start(g, callOf<T>(Collective::AllGather, in, out, count, Sum, 0, options.label),
                               options.algorithm);
}

template <typename T>
void reduce_scatter_inner(Rank &r, const Group &g, T *out, const T *in, int64_t runs, int64_t length, ReduceOp op,
                          const CollectiveOptions &options = {}) {
  r.collectives().run(g, innerCallOf<T>(Collective::ReduceScatter, in, out, runs, length, op, options.label),
                      options.algorithm);
}
template <typename T>
Ticket reduce_scatter_inner_start(Rank &r, const Group &g, T *out, const T *in, int64_t runs, int64_t length,
                                  ReduceOp op, const CollectiveOptions &options = {}) {
  return r.collectives().start(g, innerCallOf<T>(Collective::ReduceScatter, in, out, runs, length, op, options.label),
                               options.algorithm);
}

template <typename T>
void all_gather_inner(Rank &r, const Group &g, T *out, const T *in, int64_t runs, int64_t length,
                      const CollectiveOptions &options = {}) {
  r.collectives().run(g, innerCallOf<T>(Collective::AllGather, in, out, runs, length, Sum, options.label),
                      options.algorithm);
}
template <typename T>
Ticket all_gather_inner_start(Rank &r, const Group &g, T *out, const T *in, int64_t runs, int64_t length,
                              const CollectiveOptions &options = {}) {
  return r.collectives().start(g, innerCallOf<T>(Collective::AllGather, in, out, runs, length, Sum, options.label),
                               options.algorithm);
}

template <typename T>
void all_to_all(Rank &r, const Group &g, T *out, const T *in, int64_t count, const CollectiveOptions &options = {}) {
  r.collectives().run(g, callOf<T>(Collective::AllToAll, in, out, count, Sum, 0, options.label), options.algorithm);
}
template <typename T>
Ticket all_to_all_start(Rank &r, const Group &g, T *out, const T *in, int64_t count,
                        const CollectiveOptions &options = {}) {
  return r.collectives().start(g, callOf<T>(Collective::AllToAll, in, out, count, Sum, 0, options.label),
                               options.algorithm);
}

template <typename T>
void broadcast(Rank &r, const Group &g, T *data, int64_t count, int root, const CollectiveOptions &options = {}) {
  r.collectives().run(g, callOf<T>(Collective::Broadcast, data, data, count, Sum, root, options.label),
                      options.algorithm);
}
template <typename T>
Ticket broadcast_start(Rank &r, const Group &g, T *data, int64_t count, int root,
                       const CollectiveOptions &options = {}) {
  return r.collectives().start(g, callOf<T>(Collective::Broadcast, data, data, count, Sum, root, options.label),
                               options.algorithm);
}

/// To and from one rank of a group. data: (count)
template <typename T>
Ticket send_start(Rank &r, const Group &g, int64_t to, const T *data, int64_t count, const char *label = "") {
  return r.collectives().start(
      g, {Message::Send, int(to), runtime::ElementTypeOf<T>::value, const_cast<T *>(data), count, label});
}
template <typename T>
void send(Rank &r, const Group &g, int64_t to, const T *data, int64_t count, const char *label = "") {
  send_start(r, g, to, data, count, label);
}
template <typename T>
void receive(Rank &r, const Group &g, int64_t from, T *data, int64_t count, const char *label = "") {
  r.collectives().start(g, {Message::Receive, int(from), runtime::ElementTypeOf<T>::value, data, count, label});
}

} // namespace echelon::cuda
