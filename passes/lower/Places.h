// Which operations of a step one coordinate of a mesh axis alone does.
#pragma once
#include "ir/dist/Placed.h"
#include "passes/lower/Lowering.h"

namespace echelon::lower {

/// What is made in a step's own block while this lives, where its builder stands, and was not marked meanwhile, is of a
/// place.
class Marking {
public:
  Marking(Lowering &l, dist::Place place);
  ~Marking();
  Marking(const Marking &) = delete;
  Marking &operator=(const Marking &) = delete;

private:
  Lowering &l;
  dist::Place place;
  mlir::Block *block;
  Operation *last;
};

/// Operations of a step that are marked go into an rt.at for each run of them that are of one place.
void standApart(Lowering &l);

} // namespace echelon::lower
