// Gathers copy rows or single elements; scatters walk the result in order, so that sums repeat.
#include "runtime/kernels/Gather.h"
#include "runtime/kernels/cpu/Vectors.h"
#include "runtime/launch/Fail.h"
#include <algorithm>

namespace echelon::runtime {

using detail::over_vectors, detail::Stores, detail::Vector;

namespace {

/// Calls body(p, source, count, step) for runs of `count` neighbouring results p that all read one run of the source
/// (`step` apart); source is -1 where an index is outside. The innermost dimension is a run where no index varies along
/// it, else every result is a run of its own.
template <typename Body>
void overRuns(std::initializer_list<GatherDim> dims, std::initializer_list<GatherIndex> indices, Body body) {
  const GatherDim *dim = dims.begin();
  int rank = static_cast<int>(dims.size());
  if (rank > 8)
    fail("gather with more than 8 dimensions");
  int64_t run = 1, step = 0, total = 1;
  for (const GatherDim &d : dims)
    total *= d.size;
  if (total == 0)
    return;
  bool inner = rank > 0;
  for (const GatherIndex &g : indices)
    inner &= rank == 0 || g.strides[rank - 1] == 0;
  if (inner) {
    run = dim[rank - 1].size, step = dim[rank - 1].source;
    --rank;
  }
  int64_t at[8] = {};
  for (int64_t p = 0; p < total; p += run) {
    int64_t source = 0;
    bool here = true;
    for (int d = 0; d < rank; ++d)
      source += at[d] * dim[d].source;
    for (const GatherIndex &g : indices) {
      int64_t place = 0;
      for (int d = 0; d < rank; ++d)
        place += at[d] * g.strides[d];
      int32_t i = g.index[place];
      here &= i >= g.lo && i < g.hi;
      source += (int64_t(i) - g.lo) * g.axis;
    }
    body(p, here ? source : -1, run, step);
    for (int d = rank - 1; d >= 0 && ++at[d] == dim[d].size; --d)
      at[d] = 0;
  }
}

/// The row of `table` that index[i] names; null where there is none.
template <typename T>
T *rowOf(T *table, const int32_t *index, int64_t i, int64_t count, int64_t width, int32_t lo, int32_t hi) {
  return i < count && index[i] >= lo && index[i] < hi ? table + (int64_t(index[i]) - lo) * width : nullptr;
}
} // namespace

// While a row is copied or added, the next one, which no prefetcher of the machine can know, is asked for.
template <typename T>
void gather_rows(T *out, const T *table, const int32_t *index, int64_t count, int64_t width, int32_t lo, int32_t hi) {
  const Stores stores(count * width * sizeof(T));
  const T *row = rowOf(table, index, 0, count, width, lo, hi);
  for (int64_t i = 0; i < count; ++i, out += width) {
    const T *next = rowOf(table, index, i + 1, count, width, lo, hi), *ahead = next ? next : table;
    stores.write(out, width, [&](auto at, int64_t j) {
      __builtin_prefetch(ahead + j);
      return row ? at.load(row + j) : Vector<T>{};
    });
    row = next;
  }
}

template <typename T>
void scatter_add_rows(T *table, const T *d, const int32_t *index, int64_t count, int64_t width, int32_t lo,
                      int32_t hi) {
  T *row = rowOf(table, index, 0, count, width, lo, hi);
  for (int64_t i = 0; i < count; ++i, d += width) {
    T *next = rowOf(table, index, i + 1, count, width, lo, hi);
    const T *ahead = next ? next : d;
    if (row)
      over_vectors<T>(width, [&](auto at, int64_t j) {
        __builtin_prefetch(ahead + j, 1);
        at.store(row + j, at.load(row + j) + at.load(d + j));
      });
    row = next;
  }
}

template <typename T>
void gather(T *out, const T *source, std::initializer_list<GatherDim> dims,
            std::initializer_list<GatherIndex> indices) {
  overRuns(dims, indices, [&](int64_t p, int64_t from, int64_t count, int64_t step) {
    for (int64_t j = 0; j < count; ++j)
      out[p + j] = from < 0 ? T(0) : source[from + j * step];
  });
}

template <typename T>
void scatter_add(T *source, const T *d, std::initializer_list<GatherDim> dims,
                 std::initializer_list<GatherIndex> indices) {
  overRuns(dims, indices, [&](int64_t p, int64_t to, int64_t count, int64_t step) {
    for (int64_t j = 0; to >= 0 && j < count; ++j)
      source[to + j * step] += d[p + j];
  });
}

#define INSTANTIATE(T)                                                                                                 \
  template void scatter_add_rows<T>(T *, const T *, const int32_t *, int64_t, int64_t, int32_t, int32_t);              \
  template void scatter_add<T>(T *, const T *, std::initializer_list<GatherDim>, std::initializer_list<GatherIndex>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE
#define INSTANTIATE(T)                                                                                                 \
  template void gather_rows<T>(T *, const T *, const int32_t *, int64_t, int64_t, int32_t, int32_t);                   \
  template void gather<T>(T *, const T *, std::initializer_list<GatherDim>, std::initializer_list<GatherIndex>);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(int32_t)
#undef INSTANTIATE

} // namespace echelon::runtime
