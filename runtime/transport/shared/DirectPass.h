// The passes over memory that a direct collective consists of.
//
// A collective is cut into one share per rank of the group, a share into chunks; any rank may do any chunk, and what a
// chunk writes does not depend on who does it. Sums run over the ranks in group order.
#pragma once

#include "runtime/transport/Transport.h"

#include <vector>

namespace echelon::runtime {

/// Where the buffers of the group's ranks lie. A null `out` is not written.
struct DirectBuffers {
  std::vector<const char *> in;
  std::vector<char *> out;
};

/// Elements in the share of place `share` in a group of `places`.
int64_t shareLength(const CollectiveCall &call, int places, int share);

/// Does elements [begin, end) of a share.
void doShare(const CollectiveCall &call, const DirectBuffers &buffers, int share, int64_t begin, int64_t end);
/// What the shares of all places do to one place's buffer.
void doForOne(const CollectiveCall &call, const DirectBuffers &buffers, int place);

/// target[i] = target[i] op source[i], for `count` elements.
void combine(void *target, const void *source, int64_t count, ElementType type, ReduceOp op);
/// target[i] = left[i] op right[i]; target may be left or right.
void combine(void *target, const void *left, const void *right, int64_t count, ElementType type, ReduceOp op);

} // namespace echelon::runtime
