// Kernels: what their definitions do not say of operands and sizes.
#include "ir/rt/Rt.h"

using namespace mlir;
using namespace echelon::rt;

// Where a result may lie: what is read there is read before it is written.
bool SoftmaxOp::mayShare(Value written, Value read) { return written == getY() && read == getX(); }
bool CumSumOp::mayShare(Value written, Value read) { return written == getY() && read == getX(); }
bool OrthogonalizeOp::mayShare(Value written, Value read) { return written == getY() && read == getX(); }
bool NormalizeOp::mayShare(Value written, Value read) { return written == getY() && read == getX(); }
bool NormalizeGradOp::mayShare(Value written, Value read) {
  return written == getDx() && (read == getDy() || read == getY());
}
bool CombineOp::mayShare(Value written, Value read) {
  if (written != getOuts().front())
    return false;
  switch (getKind()) {
  case CombineKind::Softmax:
  case CombineKind::Normalize:
  case CombineKind::RmsNormalize:
    return read == getInputs()[0];
  case CombineKind::NormalizeGrad:
  case CombineKind::RmsGrad:
    return read == getInputs()[0] || read == getInputs()[1];
  default:
    return false;
  }
}

LogicalResult GemmOp::verify() {
  if (getBatch().size() % 4 != 0)
    return emitOpError() << "has four numbers a dimension of its batch: a size, and strides in c, a and b";
  const int64_t count = getM().count() * getN().count();
  if (getBatch().empty() && buffer(getC()).count() != count)
    return emitOpError() << "makes " << count << " elements, and c has " << buffer(getC()).count();
  if (getBias() && (buffer(getBias()).count() != getN().count() || !buffer(getBias()).isDense()))
    return emitOpError() << "adds a dense bias of " << getN().count() << " elements, not " << getBias().getType();
  if (getBias() && (getAdds() || !getBatch().empty()))
    return emitOpError() << "adds a bias to one whole product";
  return success();
}

LogicalResult ReduceOp::verify() {
  const int64_t kept = getOuter().count() * getInner().count();
  if (buffer(getX()).count() != kept * getN().count() || buffer(getY()).count() != kept)
    return emitOpError() << "makes " << kept << " of " << kept * getN().count() << " elements, not "
                         << buffer(getY()).count() << " of " << buffer(getX()).count();
  return success();
}

namespace {
template <typename Op> LogicalResult verifyPicks(Op op) {
  const size_t axes = op.getAxes().size();
  if (op.getIndices().size() != axes || op.getSizes().size() != axes || op.getBounded().size() != axes)
    return op.emitOpError() << "has an index, a size and a bound for each of its axes";
  const size_t bounded = llvm::count(op.getBounded(), true);
  if (op.getLower().size() != bounded || op.getUpper().size() != bounded)
    return op.emitOpError() << "has a first position and an end for each axis that is bounded";
  if (op.getRows() && axes != 1)
    return op.emitOpError() << "picks rows by one index";
  return success();
}

/// How many results, operands and sizes a kind has; results may be followed by three statistics.
struct Counts {
  size_t results, inputs, sizes;
  bool mayHaveStatistics = false;
};
LogicalResult verifyCounts(Operation *op, StringRef kind, size_t results, size_t inputs, size_t sizes, Counts wanted) {
  const bool statistics = wanted.mayHaveStatistics && results == wanted.results + 3;
  if ((results == wanted.results || statistics) && inputs == wanted.inputs && sizes == wanted.sizes)
    return success();
  return op->emitOpError() << "of " << kind << " makes " << wanted.results << " of " << wanted.inputs << " by "
                           << wanted.sizes << " sizes, not " << results << " of " << inputs << " by " << sizes;
}
} // namespace

LogicalResult GatherOp::verify() { return verifyPicks(*this); }
LogicalResult ScatterAddOp::verify() { return verifyPicks(*this); }

LogicalResult PartialOp::verify() {
  auto counts = [&]() -> Counts {
    switch (getKind()) {
    case PartialKind::SumExp:
      return {1, 2, 3};
    case PartialKind::Largest:
      return {2, 1, 3};
    case PartialKind::CrossEntropy:
      return {2, 3, 2};
    case PartialKind::CrossEntropyTarget:
      return {3, 3, 2};
    case PartialKind::Moments:
      return {1, 1, 3};
    case PartialKind::Squares:
      return {1, 1, 2};
    case PartialKind::NormSums:
    case PartialKind::RmsSums:
      return {1, 2, 2};
    }
    llvm_unreachable("of all kinds");
  };
  return verifyCounts(*this, stringifyPartialKind(getKind()), getOuts().size(), getInputs().size(), getSizes().size(),
                      counts());
}

LogicalResult CombineOp::verify() {
  auto counts = [&]() -> Counts {
    switch (getKind()) {
    case CombineKind::Softmax:
      return {1, 3, 3};
    case CombineKind::LogSumExp:
      return {getOuts().size(), getInputs().size(), 1};
    case CombineKind::CrossEntropy:
      return {2, 2, 1};
    case CombineKind::CrossEntropyTarget:
      return {2, 3, 1};
    case CombineKind::Largest:
    case CombineKind::Moments:
      return {1, 1, 2};
    case CombineKind::Normalize:
      return {2, 2, 2, true};
    case CombineKind::Statistics:
      return {1, 1, 1, true};
    case CombineKind::RmsNormalize:
      return {2, 2, 2};
    case CombineKind::NormalizeGrad:
    case CombineKind::RmsGrad:
      return {1, 4, 2};
    }
    llvm_unreachable("of all kinds");
  };
  return verifyCounts(*this, stringifyCombineKind(getKind()), getOuts().size(), getInputs().size(), getSizes().size(),
                      counts());
}
