// Many tensors in one launch: a table of their places and lengths is an argument of the kernel, by value, and each
// block finds the tensor that it works on.
//
//   __global__ void sgd(const Tensors<4, float, const float> tensors, const float *rate) {
//     const auto [w, d_w, n, i] = tensors.of_thread(); // 4 elements, from i on
//     …
//   launch_each("sgd", sgd, r, {{p.w, grad.w, 512}, {p.b, grad.b, 64}}, in(rate, 1));
#pragma once
#include "runtime/cuda/Device.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <tuple>
#include <vector>

namespace echelon::cuda {

/// What a kernel is given of one tensor: rows of n elements each, of types T. It reads const ones, and reads and writes
/// the others.
template <typename... T> struct Tensor {
  Tensor() = default;
  Tensor(T *...rows, int64_t n) : rows{const_cast<std::remove_const_t<T> *>(rows)...}, n(n) {}

  void *rows[sizeof...(T)];
  int64_t n;
};

/// Its rows, n, and the first element that a thread or a block is for.
template <typename... T> struct Piece {
  const Tensor<T...> &of;
  int64_t begin;

  template <size_t i> DEVICE auto get() const {
    if constexpr (i < sizeof...(T))
      return static_cast<std::tuple_element_t<i, std::tuple<T *...>>>(of.rows[i]);
    else
      return i == sizeof...(T) ? of.n : begin;
  }
};

/// Tensors of a launch, each with blocks of its own, of kThreads threads that have k neighbouring elements.
template <int k, typename... T> class Tensors {
public:
  static constexpr int64_t kOfBlock = int64_t(kThreads) * k; // elements
  /// How many there are at most: with other arguments they have 4 KB.
  static constexpr int kMost = (3840 - 16) / static_cast<int>(sizeof(Tensor<T...>) + sizeof(int32_t));

  void add(const Tensor<T...> &tensor) {
    tensors[count] = tensor;
    firstBlock[count++] = allBlocks;
    allBlocks += static_cast<int32_t>((tensor.n + kOfBlock - 1) / kOfBlock);
  }
  bool isFull() const { return count == kMost; }
  int size() const { return count; }
  int64_t blocks() const { return allBlocks; }
  const Tensor<T...> &operator[](int i) const { return tensors[i]; }

  DEVICE Piece<T...> of_thread() const {
    Piece<T...> piece = of_block();
    piece.begin += static_cast<int64_t>(threadIdx.x) * k;
    return piece;
  }
  DEVICE Piece<T...> of_block() const {
    const auto block = static_cast<int32_t>(blockIdx.x);
    int at = 0, end = count;
    while (end - at > 1) {
      const int middle = (at + end) / 2;
      (firstBlock[middle] <= block ? at : end) = middle;
    }
    return {tensors[at], (block - firstBlock[at]) * kOfBlock};
  }

private:
  Tensor<T...> tensors[kMost];
  int32_t firstBlock[kMost];
  int32_t count = 0, allBlocks = 0;
};

/// Tables of at most kMost of these tensors each, in their order; empty ones are left out.
template <int k, typename... T>
std::vector<Tensors<k, T...>> tables(const Tensor<T...> *begin, const Tensor<T...> *end) {
  std::vector<Tensors<k, T...>> tables;
  for (const Tensor<T...> *tensor = begin; tensor != end; ++tensor) {
    if (tensor->n == 0)
      continue;
    if (tables.empty() || tables.back().isFull())
      tables.emplace_back();
    tables.back().add(*tensor);
  }
  return tables;
}

/// A launch for all tensors, or a few where they do not fit into one table. The kernel does not care which are
/// together.
template <int k, typename... T, typename... P, typename... A>
void launch_each(const char *what, void (*kernel)(Tensors<k, T...>, P...), Stream stream, const Tensor<T...> *begin,
                 const Tensor<T...> *end, A... args) {
  for (const Tensors<k, T...> &table : tables<k, T...>(begin, end))
    launch(what, kernel, cover_blocks(table.blocks()), stream, table, args...);
}
template <int k, typename... T, typename... P, typename... A>
void launch_each(const char *what, void (*kernel)(Tensors<k, T...>, P...), Stream stream,
                 std::initializer_list<Tensor<T...>> all, A... args) {
  launch_each(what, kernel, stream, all.begin(), all.end(), args...);
}

#ifndef __CUDACC__
/// What a launch touches of a table.
template <int k, typename... T> void addRanges(std::vector<host::Range> &to, const Tensors<k, T...> &tensors) {
  auto add = [&to](auto *row, int64_t n) {
    constexpr bool isConst = std::is_const_v<std::remove_pointer_t<decltype(row)>>;
    host::addRanges(to, Arg<std::remove_pointer_t<decltype(row)>>{row, n, isConst ? Use::reads : Use::both});
  };
  for (int i = 0; i < tensors.size(); ++i) {
    size_t row = 0;
    (add(static_cast<T *>(tensors[i].rows[row++]), tensors[i].n), ...);
  }
}
#endif

} // namespace echelon::cuda

template <typename... T>
struct std::tuple_size<echelon::cuda::Piece<T...>> : std::integral_constant<size_t, sizeof...(T) + 2> {};
template <size_t i, typename... T> struct std::tuple_element<i, echelon::cuda::Piece<T...>> {
  using type = std::tuple_element_t<i, std::tuple<T *..., int64_t, int64_t>>;
};
