// How a stored tensor or an input lies on ranks, as data.
//
// A piece is found as the list rule says (docs: "Layout is one idea"): along each axis, the mesh axes that split it
// nest, the slowest first, each by its map (OwnerMap.h); flat cuts then divide what is left, as one row of numbers,
// each padding the piece before to a multiple. Where they lie below the first axes, each slice along these is cut so.
#pragma once

#include "runtime/program/OwnerMap.h"
#include "runtime/transport/Element.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace echelon::runtime {

/// "float", "double", "int", "bool".
const char *nameOf(ElementType type);

struct MeshAxis {
  std::string name;
  int size;
};

/// One axis of a tensor in storage.
struct AxisPiece {
  std::string name;
  int64_t size;          // logical
  std::vector<int> over; // mesh axes (indices into the mesh) that split it, slowest first; cuts nest inside splits
  int64_t padded = 0;    // 0, or the size in storage over all ranks
  std::vector<OwnerMap> maps = {}; // of each of `over`; those that are missing are blocks
};

struct Layout {
  std::vector<AxisPiece> axes; // in storage order, the last one contiguous
  std::vector<int> flatCuts;   // mesh axes that cut the local piece flat, in this order
  size_t aboveFlat = 0;        // how many of the first axes these leave alone
};

/// What one rank holds of a layout.
struct Piece {
  std::vector<std::vector<Interval>> runs; // logical positions held, per axis in storage order; past its size: padding
  std::vector<int64_t> size;               // extent in storage, per axis: of its runs together
  int64_t flatOffset = 0;                  // of this piece in each slice of the box `size`, after flat cuts
  int64_t count = 1;                       // elements in storage, padding of flat cuts included
};

/// A rank's mesh coordinates; ranks are numbered row-major, the last mesh axis fastest.
std::vector<int> meshCoordinates(const std::vector<MeshAxis> &mesh, int rank);
int meshSize(const std::vector<MeshAxis> &mesh);

Piece pieceOf(const Layout &layout, const std::vector<MeshAxis> &mesh, const std::vector<int> &coordinates);

/// Elements that each rank stores (the same on all).
int64_t localCount(const Layout &layout, const std::vector<MeshAxis> &mesh);
/// Elements of the whole tensor, without padding.
int64_t logicalCount(const Layout &layout);
/// Logical sizes in the order `declared` (names of the layout's axes, each once).
std::vector<int64_t> logicalSizes(const Layout &layout, const std::vector<std::string> &declared);
/// Whether this rank holds its piece first among the ranks that hold the same: the one that writes it.
bool writesPiece(const Layout &layout, const std::vector<MeshAxis> &mesh, const std::vector<int> &coordinates);

/// `count` elements held in a row at `local`, whose logical indices (linear over the axes in declared order) are
/// logical, logical + stride, …
struct Run {
  int64_t local;
  int64_t logical;
  int64_t stride;
  int64_t count;
};

/// Visits all that a rank holds, in storage order, padding left out.
void forEachRun(const Layout &layout, const std::vector<std::string> &declared, const std::vector<MeshAxis> &mesh,
                const std::vector<int> &coordinates, const std::function<void(const Run &)> &visit);

} // namespace echelon::runtime
