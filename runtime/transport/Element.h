// Element types and reductions that collectives know. The types' table is Element.def.
#pragma once

#include "runtime/transport/NarrowFloat.h"

#include <cstddef>
#include <cstdint>

namespace echelon::runtime {

enum class ElementType : uint8_t {
#define ECHELON_ELEMENT(NAME, ...) NAME,
#include "runtime/transport/Element.def"
#undef ECHELON_ELEMENT
};

/// How values of several ranks become one. On uint8_t (bool) Max is "or" and Min is "and"; Sum wraps.
enum ReduceOp : uint8_t { Sum, Max, Min };

template <typename T> struct ElementTypeOf;
#define ECHELON_ELEMENT(NAME, CPP, ...)                                                                                \
  template <> struct ElementTypeOf<CPP> {                                                                              \
    static constexpr ElementType value = ElementType::NAME;                                                            \
  };
#include "runtime/transport/Element.def"
#undef ECHELON_ELEMENT

/// visit(T()) for the C++ type of an element.
template <typename F> constexpr auto visitElement(ElementType type, F visit) {
  switch (type) {
#define ECHELON_ELEMENT(NAME, CPP, ...)                                                                                \
  case ElementType::NAME:                                                                                              \
    return visit(CPP());
#include "runtime/transport/Element.def"
#undef ECHELON_ELEMENT
  }
  __builtin_unreachable();
}

constexpr size_t bytesOf(ElementType type) {
  return visitElement(type, [](auto zero) { return sizeof(zero); });
}

/// What an element type is called.
struct ElementNames {
  ElementType type;
  const char *ir, *language, *safetensors, *npy;
};
inline constexpr ElementNames kElements[] = {
#define ECHELON_ELEMENT(NAME, CPP, IR, LANGUAGE, SAFETENSORS, NPY, MPI)                                                \
  {ElementType::NAME, IR, LANGUAGE, SAFETENSORS, NPY},
#include "runtime/transport/Element.def"
#undef ECHELON_ELEMENT
};
constexpr const ElementNames &namesOf(ElementType type) { return kElements[static_cast<size_t>(type)]; }

} // namespace echelon::runtime
