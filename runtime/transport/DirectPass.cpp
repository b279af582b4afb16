#include "runtime/transport/DirectPass.h"

#include "runtime/transport/CopyBytes.h"

#include <algorithm>
#include <cstring>

namespace echelon::runtime {

// ---- reductions of a few rows into several places ----

template <ReduceOp op, typename T> static inline T combined(T a, T b) {
  if constexpr (op == Sum)
    return static_cast<T>(a + b);
  else if constexpr (op == Max)
    return a > b || a != a ? a : b; // a NaN is not lost
  else
    return a < b || a != a ? a : b;
}

template <typename T, ReduceOp op> static void combineRows(T *target, const T *left, const T *right, int64_t count) {
  // The pointers are equal or disjoint, so the iterations are independent either way.
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i)
    target[i] = combined<op>(left[i], right[i]);
}

// Calls visit(T(), integral_constant<ReduceOp>) for the type and operation at hand.
template <typename Visit> static void visitTyped(ElementType type, ReduceOp op, Visit visit) {
  auto withOp = [&](auto zero) {
    switch (op) {
    case Sum:
      return visit(zero, std::integral_constant<ReduceOp, Sum>());
    case Max:
      return visit(zero, std::integral_constant<ReduceOp, Max>());
    case Min:
      return visit(zero, std::integral_constant<ReduceOp, Min>());
    }
  };
  switch (type) {
  case ElementType::Float32:
    return withOp(float());
  case ElementType::Float64:
    return withOp(double());
  case ElementType::Int32:
    return withOp(int32_t());
  case ElementType::UInt8:
    return withOp(uint8_t());
  }
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

// out[k][outOffset + i] = sum over j of in[j][inOffset + i]: a block at a time, so that partial sums stay in the L1
// cache and each buffer is read once and written once. A block is summed before it is written: in and out may be equal.
template <typename T, ReduceOp op>
static void reduceInto(const std::vector<const char *> &in, char *const *out, int outs, int64_t inOffset,
                       int64_t outOffset, int64_t count, bool streams) {
  const int places = static_cast<int>(in.size());
  constexpr int64_t kBlock = 4096 / sizeof(T);
  alignas(64) T sums[kBlock];
  auto input = [&](int place) { return reinterpret_cast<const T *>(in[place]) + inOffset; };
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t n = std::min(kBlock, count - at);
    combineRows<T, op>(sums, input(0) + at, input(1) + at, n);
    for (int place = 2; place < places; ++place)
      combineRows<T, op>(sums, sums, input(place) + at, n);
    for (int target = 0; target < outs; ++target)
      if (out[target])
        copyBytes(reinterpret_cast<T *>(out[target]) + outOffset + at, sums, n * sizeof(T), streams);
  }
}

// Whether the results of all ranks together go past the cache.
static bool streamsPast(const CollectiveCall &call, int places) {
  const size_t bytes = call.count * bytesOf(call.type) * places;
  return bytes * (call.kind == Collective::AllGather || call.kind == Collective::AllToAll ? places : 1) >= kStreamBytes;
}

static void reduceInto(const CollectiveCall &call, const std::vector<const char *> &in, char *const *out, int outs,
                       int64_t inOffset, int64_t outOffset, int64_t count) {
  visitTyped(call.type, call.op, [&](auto zero, auto operation) {
    reduceInto<decltype(zero), decltype(operation)::value>(in, out, outs, inOffset, outOffset, count,
                                                           streamsPast(call, static_cast<int>(in.size())));
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
    return reduceInto(call, buffers.in, &buffers.out[share], 1, share * call.count + begin, begin, end - begin);
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
      copy(share, at, row, (call.kind == Collective::AllToAll ? share * call.count : 0) + inRow, n);
      at += n;
    }
    return;
  }
}

} // namespace echelon::runtime
