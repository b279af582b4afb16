// What an operation has one rank do with others.
#pragma once
#include "mlir/IR/Types.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace echelon::rt {

/// A mesh axis along which the ranks of a message differ.
struct Span {
  int64_t axis = 0;
  llvm::SmallVector<int64_t, 2> at; ///< these coordinates; empty: all of them
};

/// A message as one of its ranks sees it. Of a collective all ranks are members; a point-to-point message goes from one
/// rank to another, and those of one tag between the same two meet in the order in which they are started.
struct Message {
  enum class Side : uint8_t { Member, Sender, Receiver };
  Side side = Side::Member;
  llvm::StringRef kind, axes;      ///< "all_reduce"; "dp+tp", for people
  llvm::SmallVector<Span, 2> over; ///< mesh axes, ascending; point to point: one, at {from, to}
  int64_t tag = 0;                 ///< of a point-to-point message
  mlir::Type element;
  int64_t count = 0, runs = 1; ///< as the runtime's call takes them
  llvm::StringRef reduction, algorithm;
  int64_t root = -1;             ///< -1: it has none
  const void *what = nullptr;    ///< which value travels: the same on all its ranks
  int64_t read = 0, written = 0; ///< elements of its buffers that one rank reads and writes
  mlir::Value in, out;           ///< its buffers; null where this rank has none
};

/// Positions of the loops that an operation is in, outermost first.
llvm::SmallVector<mlir::Value> positionsAround(mlir::Operation *op);

} // namespace echelon::rt
