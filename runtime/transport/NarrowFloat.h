// Real numbers of two bytes: what precisions keep in memory. They are computed with as floats: both convert to float
// exactly, and from it to the nearest, ties to even. Branch-free, so that loops over them become vector code.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace echelon::runtime {

/// bfloat16: 8 bits of exponent, 7 of mantissa: the upper half of a float.
struct bf16 {
  uint16_t bits;

  bf16() = default;
  explicit constexpr bf16(float x) : bits(nearest(__builtin_bit_cast(uint32_t, x))) {}
  constexpr operator float() const { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }

private:
  static constexpr uint16_t nearest(uint32_t x) {
    const bool isNan = (x & 0x7fffffffu) > 0x7f800000u;
    return static_cast<uint16_t>((isNan ? x | 0x400000u : x + 0x7fffu + (x >> 16 & 1u)) >> 16);
  }
};

/// IEEE 754's binary16: 5 bits of exponent, 10 of mantissa, subnormals kept; beyond 65,504 it is infinite.
struct fp16 {
  uint16_t bits;

  fp16() = default;
  explicit constexpr fp16(float x) : bits(nearest(__builtin_bit_cast(uint32_t, x))) {}
  constexpr operator float() const {
    constexpr uint32_t exponents = 0x7c00u << 13, rebias = (127u - 15u) << 23;
    const uint32_t shifted = (bits & 0x7fffu) << 13, exponent = shifted & exponents;
    // Subnormals: as a float with an exponent of its own, less what that adds.
    const float small = __builtin_bit_cast(float, shifted + rebias + (1u << 23)) - 6.103515625e-5f;
    const uint32_t normal = shifted + rebias + (exponent == exponents ? (128u - 16u) << 23 : 0u);
    const uint32_t size = exponent == 0 ? __builtin_bit_cast(uint32_t, small) : normal;
    return __builtin_bit_cast(float, size | (bits & 0x8000u) << 16);
  }

private:
  static constexpr uint16_t nearest(uint32_t x) {
    constexpr uint32_t infinity = 255u << 23, beyond = (127u + 16u) << 23, leastNormal = 113u << 23;
    constexpr uint32_t shift = (127u - 15u + 23u - 10u + 1u) << 23; // adding it rounds to a multiple of 2^-24
    const uint32_t sign = x & 0x80000000u, size = x ^ sign;
    const float moved = __builtin_bit_cast(float, size) + __builtin_bit_cast(float, shift);
    const uint32_t small = __builtin_bit_cast(uint32_t, moved) - shift;
    const uint32_t normal = (size - ((127u - 15u) << 23) + 0xfffu + (size >> 13 & 1u)) >> 13;
    const uint32_t large = size > infinity ? 0x7e00u : 0x7c00u;
    return static_cast<uint16_t>((size >= beyond ? large : size < leastNormal ? small : normal) | sign >> 16);
  }
};

template <typename T> inline constexpr bool isNarrow = std::is_same_v<T, bf16> || std::is_same_v<T, fp16>;

} // namespace echelon::runtime
