// What all uses of oneDNN share.
#pragma once
#include <dnnl.hpp>

namespace echelon::runtime::detail {

/// The CPU.
inline const dnnl::engine &engine() {
  static const dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

} // namespace echelon::runtime::detail
