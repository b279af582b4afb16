#include "runtime/transport/shared/DirectPass.h"

#include "runtime/launch/Fail.h"
#include "runtime/transport/shared/CopyBytes.h"

#include <algorithm>
#include <cstring>

namespace echelon::runtime {

// ---- reductions of a few rows into several places ----

// The operation on values, or, element by element, on vectors of them.
template <ReduceOp op, typename T> static inline T combined(T a, T b) {
  if constexpr (op == Sum)
    return a + b;
  else if constexpr (op == Max)
    return ((a > b) | (a != a)) ? a : b; // a NaN is not lost
  else
    return ((a < b) | (a != a)) ? a : b;
}

template <typename T, ReduceOp op> static void combineRows(T *target, const T *left, const T *right, int64_t count) {
  // The pointers are equal or disjoint, so the iterations are independent either way.
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i)
    target[i] = combined<op, T>(left[i], right[i]);
}

// Calls visit(T(), integral_constant<ReduceOp>) for the type and operation at hand.
template <typename Visit> static void visitTyped(ElementType type, ReduceOp op, Visit visit) {
  auto withOp = [&](auto zero) {
    if constexpr (isNarrow<decltype(zero)>) {
      fail("internal error: a message adds up numbers of two bytes, which travel as they are alone");
    } else {
      switch (op) {
      case Sum:
        return visit(zero, std::integral_constant<ReduceOp, Sum>());
      case Max:
        return visit(zero, std::integral_constant<ReduceOp, Max>());
      case Min:
        return visit(zero, std::integral_constant<ReduceOp, Min>());
      }
    }
  };
  return visitElement(type, withOp);
}

void combine(void *target, const void *left, const void *right, int64_t count, ElementType type, ReduceOp op) {
  visitTyped(type, op, [&](auto zero, auto operation) {
    using T = decltype(zero);
    combineRows<T, decltype(operation)::value>(static_cast<T *>(target), static_cast<const T *>(left),
                                               static_cast<const T *>(right), count);
  });
}

void combine(void *target, const void *source, int64_t count, ElementType type, ReduceOp op) {
  combine(target, target, source, count, type, op);
}

template <typename T> struct VectorOf {
  typedef T type __attribute__((vector_size(32), aligned(alignof(T)), may_alias));
};

// out[k][i] = sum over j of in[j][i], two vectors at a time from all rows into all places, so that each line is read
// once and written once; in and out may be equal. Where they are, the line is in the cache when it is written:
// streaming stores would make it twice the time (64 MiB by two ranks: 10.2 ms instead of 5.6), sums kept aside 1.5
// times that of 4 MiB. What the prefetchers leave, at the ends of pages above all, is asked for here: 16 MiB 0.7 ms
// instead of 1.1. `fixedIns`, `fixedOuts`: ins and outs, where they are not 0.
template <typename T, ReduceOp op, bool streams, int fixedIns, int fixedOuts>
static void reduceRows(const T *const *in, int ins, T *const *out, int outs, int64_t count) {
  using Vector = typename VectorOf<T>::type;
  constexpr int64_t kPair = 2 * sizeof(Vector) / sizeof(T), kAhead = 2048 / sizeof(T);
  // Own copies of fixed length, which no store through a row can change: they stay in registers.
  const T *fixedIn[std::max(fixedIns, 1)] = {};
  T *fixedOut[std::max(fixedOuts, 1)] = {};
  if constexpr (fixedIns > 0) {
    std::copy(in, in + fixedIns, fixedIn);
    in = fixedIn;
    ins = fixedIns;
  }
  if constexpr (fixedOuts > 0) {
    std::copy(out, out + fixedOuts, fixedOut);
    out = fixedOut;
    outs = fixedOuts;
  }
  auto pair = [&](int64_t at, auto ahead) {
    auto load = [&](int row, int half) { return reinterpret_cast<const Vector *>(in[row] + at)[half]; };
    Vector first = load(0, 0), second = load(0, 1);
    ahead(0);
    for (int row = 1; row < ins; ++row) {
      ahead(row);
      first = combined<op, Vector>(first, load(row, 0));
      second = combined<op, Vector>(second, load(row, 1));
    }
    for (int target = 0; target < outs; ++target) {
      T *place = out[target] + at;
      store(place, first, streams);
      store(place + kPair / 2, second, streams);
    }
  };
  int64_t at = 0;
  for (; at + kAhead + kPair <= count; at += kPair)
    pair(at, [&](int row) { __builtin_prefetch(in[row] + at + kAhead); });
  for (; at + kPair <= count; at += kPair) // what comes after may be another rank's
    pair(at, [](int) {});
  for (; at < count; ++at) {
    T sum = in[0][at];
    for (int row = 1; row < ins; ++row)
      sum = combined<op, T>(sum, in[row][at]);
    for (int target = 0; target < outs; ++target)
      out[target][at] = sum;
  }
  if (streams)
    drainStores();
}

// Whether the results of all ranks together go past the cache; not in short runs, each of which would end with a wait
// for its stores.
static bool streamsPast(const CollectiveCall &call, int places) {
  constexpr size_t kLeastRun = 4096; // bytes
  if (call.runs > 1 && call.count / call.runs * bytesOf(call.type) < kLeastRun)
    return false;
  const size_t bytes = call.count * bytesOf(call.type) * places;
  return bytes * (call.kind == Collective::AllGather || call.kind == Collective::AllToAll ? places : 1) >= kStreamBytes;
}

static void reduceInto(const CollectiveCall &call, const std::vector<const char *> &in, char *const *out, int outs,
                       int64_t inOffset, int64_t outOffset, int64_t count) {
  visitTyped(call.type, call.op, [&](auto zero, auto operation) {
    using T = decltype(zero);
    constexpr ReduceOp op = decltype(operation)::value;
    const int ins = static_cast<int>(in.size());
    thread_local std::vector<const T *> rows;
    thread_local std::vector<T *> targets;
    rows.clear();
    targets.clear();
    for (const char *row : in)
      rows.push_back(reinterpret_cast<const T *>(row) + inOffset);
    bool streams = streamsPast(call, ins);
    for (int target = 0; target < outs; ++target)
      if (out[target]) {
        targets.push_back(reinterpret_cast<T *>(out[target]) + outOffset);
        streams = streams && reinterpret_cast<uintptr_t>(targets.back()) % 32 == 0 &&
                  std::find(rows.begin(), rows.end(), targets.back()) == rows.end();
      }
    const int written = static_cast<int>(targets.size());
    auto reduce = [&](auto pass) { pass(rows.data(), ins, targets.data(), written, count); };
    if (streams)
      reduce(ins == 2 && written == 1 ? reduceRows<T, op, true, 2, 1> : reduceRows<T, op, true, 0, 0>);
    else if (ins == 2 && written == 2)
      reduce(reduceRows<T, op, false, 2, 2>);
    else if (ins == 2 && written == 1)
      reduce(reduceRows<T, op, false, 2, 1>);
    else if (ins == 4 && written == 4)
      reduce(reduceRows<T, op, false, 4, 4>);
    else if (ins == 8 && written == 8)
      reduce(reduceRows<T, op, false, 8, 8>);
    else
      reduce(reduceRows<T, op, false, 0, 0>);
  });
}

// ---- shares ----

// Parts of all_reduce and reduce begin on cache lines, so that no two ranks write to one.
static int64_t partBegin(int64_t count, size_t elementBytes, int places, int part) {
  const int64_t line = 64 / elementBytes;
  return std::min(count, (count / places + (count % places != 0) + line - 1) / line * line * part);
}

int64_t shareLength(const CollectiveCall &call, int places, int share) {
  switch (call.kind) {
  case Collective::Barrier:
    return 0;
  case Collective::AllReduce:
  case Collective::Reduce:
    return partBegin(call.count, bytesOf(call.type), places, share + 1) -
           partBegin(call.count, bytesOf(call.type), places, share);
  case Collective::AllGather:
  case Collective::AllToAll:
    return call.count * places;
  case Collective::Broadcast:
    return share == call.root ? 0 : call.count;
  case Collective::Scatter:
  case Collective::Gather:
  case Collective::ReduceScatter:
    return call.count;
  }
  return 0;
}

void doShare(const CollectiveCall &call, const DirectBuffers &buffers, int share, int64_t begin, int64_t end) {
  const int places = static_cast<int>(buffers.in.size());
  const int64_t bytes = bytesOf(call.type);
  const bool streams = streamsPast(call, places);
  auto copy = [&](int toPlace, int64_t to, int fromPlace, int64_t from, int64_t count) {
    char *target = buffers.out[toPlace];
    const char *source = buffers.in[fromPlace];
    if (target && target + to * bytes != source + from * bytes)
      copyBytes(target + to * bytes, source + from * bytes, count * bytes, streams);
  };
  switch (call.kind) {
  case Collective::Barrier:
    return;
  case Collective::AllReduce:
  case Collective::Reduce: {
    int64_t offset = partBegin(call.count, bytes, places, share);
    return reduceInto(call, buffers.in, buffers.out.data(), places, offset + begin, offset + begin, end - begin);
  }
  case Collective::ReduceScatter:
    return forEachRun(call, places, share, begin, end, [&](int64_t in, int64_t out, int64_t count) {
      reduceInto(call, buffers.in, &buffers.out[share], 1, in, out, count);
    });
  case Collective::Broadcast:
    return copy(share, begin, call.root, begin, end - begin);
  case Collective::Scatter:
    return copy(share, begin, call.root, share * call.count + begin, end - begin);
  case Collective::Gather:
    return copy(call.root, share * call.count + begin, share, begin, end - begin);
  case Collective::AllGather:
  case Collective::AllToAll:
    // The share is this rank's whole result, row by row.
    for (int64_t at = begin; at < end;) {
      int row = static_cast<int>(at / call.count);
      int64_t inRow = at % call.count, n = std::min(end - at, call.count - inRow);
      const int64_t source = call.kind == Collective::AllToAll ? share * call.count : 0;
      forEachRun(call, places, row, inRow, inRow + n,
                 [&](int64_t to, int64_t from, int64_t count) { copy(share, to, row, source + from, count); });
      at += n;
    }
    return;
  }
}

void doForOne(const CollectiveCall &call, const DirectBuffers &buffers, int place) {
  const int places = static_cast<int>(buffers.in.size());
  switch (call.kind) {
  case Collective::AllReduce:
  case Collective::Reduce:
    return reduceInto(call, buffers.in, &buffers.out[place], 1, 0, 0, call.count);
  case Collective::Gather:
    for (int share = 0; share < places; ++share)
      doShare(call, buffers, share, 0, call.count);
    return;
  default:
    return doShare(call, buffers, place, 0, shareLength(call, places, place));
  }
}

} // namespace echelon::runtime
