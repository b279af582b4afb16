// The dialect itself, and what its operations and attributes check.
#include "ir/run/Run.h"
#include "mlir/IR/DialectImplementation.h"
#include "runtime/sync/SyncPolicy.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::run;

#include "ir/run/RunDialect.cpp.inc"
#include "ir/run/RunEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/run/RunAttrs.cpp.inc"

void RunDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/run/RunAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/run/RunOps.cpp.inc"
      >();
}

LogicalResult PrecisionOp::verify() {
  const Type compute = getCompute();
  if (!compute.isF32() && !compute.isTF32() && !compute.isBF16() && !compute.isF16() && !isa<Float8E4M3FNType>(compute))
    return emitOpError() << "computes in f32, tf32, bf16, f16 or f8E4M3FN, not " << compute;
  auto isNarrow = [](Type type) { return type.isBF16() || type.isF16(); };
  if (auto params = getParams(); params && !isNarrow(*params))
    return emitOpError() << "has parameters of bf16 or f16, not " << *params;
  if (auto reduce = getReduce(); reduce && !isNarrow(*reduce))
    return emitOpError() << "sends summands in bf16 or f16, not " << *reduce;
  return success();
}

LogicalResult CompressOp::verify() {
  if (!llvm::is_contained({"fp16", "int8", "onebit", "topk", "randomk", "powersgd"}, getKind()))
    return emitOpError() << "packs with fp16, int8, onebit, topk, randomk or powersgd, not " << getKind();
  return success();
}

LogicalResult SyncOp::verify() {
  if (!runtime::policyNamed(getPolicy()))
    return emitOpError() << "knows no policy " << getPolicy();
  const auto k = int64_t(getK()), workers = int64_t(getWorkers());
  if (k < 1 || workers < 1 || (!isBatch() && k > workers))
    return emitOpError() << "takes " << k << " gradients an update of " << workers << " workers";
  if (isLocal() && int64_t(getEvery()) < 1)
    return emitOpError() << "meets every " << int64_t(getEvery()) << " steps";
  const size_t numbers = getNumbers() ? getNumbers()->size() : 0;
  const size_t wanted = getDelay().empty()            ? 0
                        : getDelay() == "exponential" ? 1
                        : getDelay() == "shifted"     ? 2
                                                      : size_t(workers);
  if (!llvm::is_contained({"", "exponential", "shifted", "each"}, getDelay()) || numbers != wanted)
    return emitOpError() << "draws no delay \"" << getDelay() << "\" of " << numbers << " numbers";
  return success();
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError, ScheduleKind kind, FloatAttr,
                                   FloatAttr floor, int64_t warmup, int64_t decay, DenseI64ArrayAttr drops,
                                   FloatAttr by) {
  const StringRef name = stringifyScheduleKind(kind);
  auto check = [&](const char *what, bool has, bool takes) -> LogicalResult {
    return has == takes ? success() : emitError() << "a schedule " << name << (takes ? " has " : " takes no ") << what;
  };
  const bool isInSteps = kind == ScheduleKind::StepsAt, falls = kind != ScheduleKind::Constant && !isInSteps;
  if (failed(check("floor", bool(floor), falls)) || failed(check("drops", bool(drops), isInSteps)) ||
      failed(check("by", bool(by), isInSteps)))
    return failure();
  if (warmup < 0 || decay < 0)
    return emitError() << "steps of a schedule are not negative, as " << std::min(warmup, decay) << " is";
  return success();
}

double OptimizeOp::number(StringRef name) {
  auto value = getNumbers().getAs<FloatAttr>(name);
  return value ? value.getValueAsDouble() : 0;
}

#define GET_OP_CLASSES
#include "ir/run/RunOps.cpp.inc"
