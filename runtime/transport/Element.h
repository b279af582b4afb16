// Element types and reductions that collectives know.
#pragma once

#include <cstddef>
#include <cstdint>

namespace echelon::runtime {

enum class ElementType : uint8_t { Float32, Float64, Int32, UInt8 };

/// How values of several ranks become one. On uint8_t (bool) Max is "or" and Min is "and"; Sum wraps.
enum ReduceOp : uint8_t { Sum, Max, Min };

constexpr size_t bytesOf(ElementType type) {
  return type == ElementType::Float64 ? 8 : type == ElementType::UInt8 ? 1 : 4;
}

template <typename T> struct ElementTypeOf;
template <> struct ElementTypeOf<float> {
  static constexpr ElementType value = ElementType::Float32;
};
template <> struct ElementTypeOf<double> {
  static constexpr ElementType value = ElementType::Float64;
};
template <> struct ElementTypeOf<int32_t> {
  static constexpr ElementType value = ElementType::Int32;
};
template <> struct ElementTypeOf<uint8_t> {
  static constexpr ElementType value = ElementType::UInt8;
};

} // namespace echelon::runtime
