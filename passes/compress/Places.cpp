// Some of the numbers: the largest, or drawn ones.
#include "passes/compress/Packing.h"

#include <cmath>

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::compress;

namespace {
int64_t keptOf(const Packed &p) {
  return std::min(p.elements(), int64_t(std::ceil(p.amount * double(p.elements()) * (1 - 1e-12))));
}

/// A row with these values at these places, and 0 elsewhere; `perWorker`: one of each worker.
Value rowOf(const Packed &p, Value values, Value places, bool perWorker) {
  Tensor param = cast<Tensor>(p.param.getType());
  SmallVector<Axis> axes;
  if (perWorker)
    axes.push_back({p.build.builder.getStringAttr(p.workers.axis), p.workers.count});
  llvm::append_range(axes, param.getAxes().take_front(p.param.getStacked()));
  axes.push_back({p.build.builder.getStringAttr(p.workers.flat), p.elements()});
  return p.unflat(p.build.scatterAdd(values, {p.workers.flat}, {places}, tensor(values).withAxes(axes)));
}

/// The ceil(p d) largest in size, the lowest index first at ties, with their places (Lin et al. 2018).
Unpacked packTopK(const Packed &p, Value u) {
  Build &b = p.build;
  Value row = p.flat(u);
  Value places = p.named("places", b.top(b.map(Function::Abs, {row}), p.workers.flat, p.workers.kept, keptOf(p)));
  Value values = p.named("kept", b.gather(row, {p.workers.flat}, {places}));
  Value allValues = p.handIn(values);
  Value allPlaces = p.handIn(places);
  Value scaled = p.workers.ofHop == 1 ? allValues : b.mul(allValues, b.constant(1.0 / double(p.workers.ofHop)));
  return {rowOf(p, scaled, allPlaces, /*perWorker=*/false),
          p.feedback ? rowOf(p, values, places, /*perWorker=*/true) : Value()};
}

/// The ceil(p d) elements with the largest draws of this step, the same on all workers: values alone travel, and their
/// sum is what one rank would take of the mean.
Unpacked packRandomK(const Packed &p, Value u) {
  Build &b = p.build;
  Tensor param = cast<Tensor>(p.param.getType());
  SmallVector<Axis> axes(param.getAxes().take_front(p.param.getStacked()));
  axes.push_back({b.builder.getStringAttr(p.workers.flat), p.elements()});
  Value draws = b.random(Distribution::Uniform, ("compress." + p.param.getSymName()).str(), 0, 1, param.withAxes(axes));
  const int64_t kept = keptOf(p);
  Value places = p.named("places", b.top(draws, p.workers.flat, p.workers.kept, kept));
  Value values = p.named("kept", b.gather(p.flat(b.mul(u, p.finiteness(u))), {p.workers.flat}, {places}));
  Value mean = p.named("mean_kept", p.mean(values));
  if (!p.feedback)
    mean = b.mul(mean, b.constant(double(p.elements()) / double(kept)));
  return {rowOf(p, mean, places, /*perWorker=*/false),
          p.feedback ? rowOf(p, values, places, /*perWorker=*/true) : Value()};
}
} // namespace

const Packing echelon::compress::kTopK{"topk", isMany, packTopK};
const Packing echelon::compress::kRandomK{"randomk", isMany, packRandomK};
