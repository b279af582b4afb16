// Every collective against what it should give, computed in sequence, as one rank sees it. Used over threads, shm, tcp
// and mpi.
#pragma once

#include "runtime/collectives/Collectives.h"

#include <cmath>
#include <string>
#include <vector>

namespace echelon::runtime::test {

/// Small whole numbers, so that sums are exact in any order and in every element type.
template <typename T> T valueOf(int rank, int64_t i, int salt) { return static_cast<T>((rank * 7 + i * 3 + salt) % 5); }

template <typename T> T reduced(const std::vector<int> &ranks, int64_t i, int salt, ReduceOp op) {
  T result = valueOf<T>(ranks[0], i, salt);
  for (size_t place = 1; place < ranks.size(); ++place) {
    T value = valueOf<T>(ranks[place], i, salt);
    result = op == Sum ? T(result + value) : op == Max ? std::max(result, value) : std::min(result, value);
  }
  return result;
}

/// Buffers for the checks: memory that the peers reach, or the rank's own.
class Buffers {
public:
  Buffers(Transport &transport, bool isShared) : transport(transport), isShared(isShared) {}
  template <typename T> T *take(int slot, int64_t count) {
    if (isShared)
      return static_cast<T *>(shared(slot));
    own[slot].assign(count * sizeof(T) + 64, 0);
    return reinterpret_cast<T *>(own[slot].data());
  }
  static constexpr size_t kSharedBytes = 4 << 20;

private:
  void *shared(int slot) {
    if (!sharedBlocks[slot])
      sharedBlocks[slot] = transport.allocate(kSharedBytes);
    return sharedBlocks[slot];
  }
  Transport &transport;
  bool isShared;
  std::vector<char> own[2];
  void *sharedBlocks[2] = {};
};

/// Throws a description of the first difference.
template <typename T> void expectSame(const T *got, T want, int64_t i, const std::string &what) {
  if (got[i] != want)
    throw what + ": element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " + std::to_string(want);
}

/// What a transport does by itself.
inline Algorithm ownAlgorithm(const Transport &t) { return t.isDirect() ? Algorithm::direct : Algorithm::native; }

inline bool exists(Collective kind, Algorithm algorithm) {
  return !(kind == Collective::AllToAll && algorithm == Algorithm::tree);
}

/// All collectives of one group with one algorithm, one count and one element type.
template <typename T>
void checkCollectives(Transport &t, const Group &g, Algorithm algorithm, int64_t n, Buffers &buffers, int salt) {
  const int p = g.size(), me = g.index;
  const std::string what = std::string(nameOf(algorithm)) + " over " + std::to_string(p) + " ranks, " +
                           std::to_string(n) + " elements of " + std::to_string(sizeof(T)) + " bytes, rank " +
                           std::to_string(t.rank());
  const int root = salt % p;
  auto fill = [&](T *data, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      data[i] = valueOf<T>(t.rank(), i, salt);
  };

  for (ReduceOp op : {Sum, Max, Min}) {
    T *data = buffers.take<T>(0, n * p), *out = buffers.take<T>(1, n);
    fill(data, n);
    all_reduce(t, g, data, n, op, {algorithm, "check"});
    for (int64_t i = 0; i < n; ++i)
      expectSame(data, reduced<T>(g.ranks, i, salt, op), i, "all_reduce, " + what);

    fill(data, n);
    reduce(t, g, data, n, op, root, {algorithm, "check"});
    for (int64_t i = 0; i < n; ++i)
      expectSame(data, me == root ? reduced<T>(g.ranks, i, salt, op) : valueOf<T>(t.rank(), i, salt), i,
                 "reduce, " + what);

    fill(data, n * p);
    reduce_scatter(t, g, out, data, n, op, {algorithm, "check"});
    for (int64_t i = 0; i < n; ++i)
      expectSame(out, reduced<T>(g.ranks, me * n + i, salt, op), i, "reduce_scatter, " + what);

    for (int64_t runs : {int64_t(3), std::max<int64_t>(1, n / 5)})
      for (bool starts : {false, true}) {
        const int64_t length = n / runs;
        fill(data, runs * p * length);
        if (starts)
          reduce_scatter_inner_start(t, g, out, data, runs, length, op, {algorithm, "check"}).wait();
        else
          reduce_scatter_inner(t, g, out, data, runs, length, op, {algorithm, "check"});
        for (int64_t i = 0; i < runs * length; ++i)
          expectSame(out, reduced<T>(g.ranks, (i / length * p + me) * length + i % length, salt, op), i,
                     "reduce_scatter_inner in " + std::to_string(runs) + " runs, " + what);
      }

    fill(data, n * p);
    reduce_scatter(t, g, data + me * n, data, n, op, {algorithm, "check"});
    for (int64_t i = 0; i < n; ++i)
      expectSame(data + me * n, reduced<T>(g.ranks, me * n + i, salt, op), i, "reduce_scatter in place, " + what);
  }

  {
    T *in = buffers.take<T>(0, n), *out = buffers.take<T>(1, n * p);
    for (int64_t runs : {int64_t(3), std::max<int64_t>(1, n / 5)}) {
      const int64_t length = n / runs;
      fill(in, n);
      all_gather_inner(t, g, out, in, runs, length, {algorithm, "check"});
      for (int row = 0; row < p; ++row)
        for (int64_t i = 0; i < runs * length; ++i)
          expectSame(out + (i / length * p + row) * length + i % length - i, valueOf<T>(g.ranks[row], i, salt), i,
                     "all_gather_inner in " + std::to_string(runs) + " runs, " + what);
      barrier(t, g, {algorithm, "check"});
    }
    for (bool inPlace : {false, true}) {
      T *from = inPlace ? out + me * n : in;
      fill(from, n);
      all_gather(t, g, out, from, n, {algorithm, "check"});
      for (int row = 0; row < p; ++row)
        for (int64_t i = 0; i < n; ++i)
          expectSame(out + row * n, valueOf<T>(g.ranks[row], i, salt), i, "all_gather, " + what);
      barrier(t, g, {algorithm, "check"});

      fill(from, n);
      gather(t, g, me == root ? out : static_cast<T *>(nullptr), from, n, root, {algorithm, "check"});
      for (int row = 0; row < p && me == root; ++row)
        for (int64_t i = 0; i < n; ++i)
          expectSame(out + row * n, valueOf<T>(g.ranks[row], i, salt), i, "gather, " + what);
      barrier(t, g, {algorithm, "check"});
    }
  }
  {
    T *in = buffers.take<T>(0, n * p), *out = buffers.take<T>(1, n * p);
    fill(in, n * p);
    if (exists(Collective::AllToAll, algorithm)) {
      all_to_all(t, g, out, in, n, {algorithm, "check"});
      for (int row = 0; row < p; ++row)
        for (int64_t i = 0; i < n; ++i)
          expectSame(out + row * n, valueOf<T>(g.ranks[row], me * n + i, salt), i, "all_to_all, " + what);
    }
    scatter(t, g, out, me == root ? in : static_cast<T *>(nullptr), n, root, {algorithm, "check"});
    for (int64_t i = 0; i < n; ++i)
      expectSame(out, valueOf<T>(g.ranks[root], me * n + i, salt), i, "scatter, " + what);

    fill(in, n);
    broadcast(t, g, in, n, root, {algorithm, "check"});
    for (int64_t i = 0; i < n; ++i)
      expectSame(in, valueOf<T>(g.ranks[root], i, salt), i, "broadcast, " + what);
  }
  barrier(t, g, {algorithm, "check"});
}

/// A few counts of a few types; all of them; also one that runs in chunks and pieces.
enum class Extent { Some, All, Large };

inline void checkGroup(Transport &t, const Group &g, const std::vector<Algorithm> &algorithms, bool isShared,
                       Extent extent) {
  Buffers buffers(t, isShared);
  int salt = 0;
  for (Algorithm algorithm : algorithms) {
    if (extent == Extent::Some) {
      for (int64_t n : {0, 5, 2000})
        checkCollectives<float>(t, g, algorithm, n, buffers, ++salt);
      checkCollectives<uint8_t>(t, g, algorithm, 77, buffers, ++salt);
      continue;
    }
    for (int64_t n : {0, 1, 17, 1025, 5000})
      checkCollectives<float>(t, g, algorithm, n, buffers, ++salt);
    for (int64_t n : {3, 1500}) {
      checkCollectives<uint8_t>(t, g, algorithm, n, buffers, ++salt);
      checkCollectives<double>(t, g, algorithm, n, buffers, ++salt);
      checkCollectives<int32_t>(t, g, algorithm, n, buffers, ++salt);
    }
    if (extent == Extent::Large && algorithm != Algorithm::tree && algorithm != Algorithm::one_to_all)
      checkCollectives<float>(t, g, algorithm, 100003, buffers, ++salt);
  }
}

/// A maximum or minimum over ranks does not lose a NaN, whichever rank has it.
inline void checkNan(Transport &t, const Group &g, const std::vector<Algorithm> &algorithms) {
  for (Algorithm algorithm : algorithms)
    for (ReduceOp op : {Max, Min})
      for (int holder = 0; holder < g.size(); ++holder) {
        std::vector<double> data(3, g.index == holder ? std::nan("") : 1.0), started(2000, data[0]);
        all_reduce(t, g, data.data(), 3, op, {algorithm, "nan"});
        all_reduce_start(t, g, started.data(), 2000, op, {algorithm, "nan"}).wait();
        if (!std::isnan(data[0]) || !std::isnan(started[1999]))
          throw std::string("the NaN of place ") + std::to_string(holder) + " is lost: " + nameOf(algorithm);
      }
}

/// Sums that depend on the order of the summands: every rank must have the same bits, twice.
inline void checkSameBits(Transport &t, const Group &g, const std::vector<Algorithm> &algorithms) {
  for (Algorithm algorithm : algorithms)
    for (int64_t n : {5, 900, 40001}) {
      std::vector<float> first;
      for (int run = 0; run < 2; ++run) {
        std::vector<float> data(n);
        for (int64_t i = 0; i < n; ++i)
          data[i] = 1.0f / float(1 + t.rank() * 31 + i % 977);
        all_reduce(t, g, data.data(), n, Sum, {algorithm, "bits"});
        if (run == 0)
          first = data;
        else if (std::memcmp(first.data(), data.data(), n * sizeof(float)) != 0)
          throw std::string("another run gives other bits: ") + nameOf(algorithm);
        std::vector<float> root = data;
        broadcast(t, g, root.data(), n, 0, "bits");
        if (std::memcmp(root.data(), data.data(), n * sizeof(float)) != 0)
          throw std::string("another rank has other bits: ") + nameOf(algorithm);
      }
    }
}

} // namespace echelon::runtime::test
