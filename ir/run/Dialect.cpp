// The dialect itself, and what its operations and attributes check.
#include "ir/run/Run.h"
#include "mlir/IR/DialectImplementation.h"
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

double OptimizeOp::number(StringRef name) {
  auto value = getNumbers().getAs<FloatAttr>(name);
  return value ? value.getValueAsDouble() : 0;
}

#define GET_OP_CLASSES
#include "ir/run/RunOps.cpp.inc"
