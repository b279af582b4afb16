#include "frontend/elaborate/Constants.h"
#include <cmath>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

void echelon::frontend::checkElement(Scopes &scopes, const ech::Build &build, const Number &n, SourceRange range) {
  const double x = n.value();
  if (std::isnan(x)) {
    scopes.error(Code::E0223, range, "this is no number");
    return;
  }
  const bool isSmall = x != 0 && float(x) == 0;
  if (!build.real.isF64() && (isSmall || std::isinf(float(x))))
    scopes.error(Code::E0704, range,
                 n.text() + (isSmall ? " is 0 in fp32, as is all below 7.006e-46"
                                     : " is beyond fp32, which holds up to 3.402823e38"));
}

Value echelon::frontend::constantLike(Scopes &scopes, ech::Build &build, const Val &v, bool integer,
                                      SourceRange range) {
  if (v.kind == Val::Truth)
    return build.constant(v.truth, build.type({}, build.builder.getI1Type()));
  if (auto n = integer ? v.number.integer() : std::nullopt; n && *n == static_cast<int32_t>(*n))
    return build.constant(v.number.value(), build.type({}, build.builder.getI32Type()));
  checkElement(scopes, build, v.number, range);
  return build.constant(v.number.value());
}
