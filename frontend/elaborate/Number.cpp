#include "frontend/elaborate/Number.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

using namespace echelon::frontend;

namespace {
// Fractions stay below 2^62, so that a product of two fits in 128 bits and a sum of two products, too.
constexpr __int128 limit = static_cast<__int128>(1) << 62;

__int128 divisor(__int128 a, __int128 b) {
  if (a < 0)
    a = -a;
  while (b != 0) {
    __int128 r = a % b;
    a = b;
    b = r;
  }
  return a;
}
} // namespace

Number Number::fraction(__int128 numerator, __int128 denominator) {
  __int128 shared = divisor(numerator, denominator);
  if (shared > 1) {
    numerator /= shared;
    denominator /= shared;
  }
  if (numerator >= limit || numerator <= -limit || denominator >= limit)
    return real(static_cast<double>(numerator) / static_cast<double>(denominator));
  Number n;
  n.numerator = static_cast<int64_t>(numerator);
  n.denominator = static_cast<int64_t>(denominator);
  return n;
}

Number Number::real(double value) {
  Number n;
  n.numerator = n.denominator = 0;
  n.approximation = value;
  return n;
}

Number Number::spelled(const std::string &text, double value) {
  __int128 digits = 0, scale = 1;
  long exponent = 0;
  bool point = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '_')
      continue;
    if (c == '.') {
      point = true;
    } else if (c == 'e' || c == 'E') {
      exponent = std::strtol(text.c_str() + i + 1, nullptr, 10);
      break;
    } else if (c >= '0' && c <= '9') {
      if (digits >= limit / 10 || (point && scale >= limit / 10))
        return real(value);
      digits = digits * 10 + (c - '0');
      if (point)
        scale *= 10;
    } else {
      return real(value);
    }
  }
  for (; exponent > 0; --exponent) {
    if (digits >= limit / 10)
      return real(value);
    digits *= 10;
    if (digits == 0)
      break;
  }
  for (; exponent < 0; ++exponent) {
    if (scale >= limit / 10)
      return real(value);
    scale *= 10;
  }
  return fraction(digits, scale);
}

std::optional<int64_t> Number::integer() const {
  if (exact() && denominator == 1)
    return numerator;
  return std::nullopt;
}

double Number::value() const {
  return exact() ? static_cast<double>(numerator) / static_cast<double>(denominator) : approximation;
}

std::string Number::text() const {
  if (auto n = integer())
    return std::to_string(*n);
  char buffer[64];
  if (exact() && denominator <= 1000 && 1000 % denominator != 0)
    std::snprintf(buffer, sizeof buffer, "%lld/%lld", static_cast<long long>(numerator),
                  static_cast<long long>(denominator));
  else
    std::snprintf(buffer, sizeof buffer, "%.6g", value());
  return buffer;
}

namespace echelon::frontend {
Number operator+(const Number &a, const Number &b) {
  if (!a.exact() || !b.exact())
    return Number::real(a.value() + b.value());
  return Number::fraction(static_cast<__int128>(a.numerator) * b.denominator +
                              static_cast<__int128>(b.numerator) * a.denominator,
                          static_cast<__int128>(a.denominator) * b.denominator);
}
Number operator-(const Number &a, const Number &b) {
  if (!a.exact() || !b.exact())
    return Number::real(a.value() - b.value());
  return Number::fraction(static_cast<__int128>(a.numerator) * b.denominator -
                              static_cast<__int128>(b.numerator) * a.denominator,
                          static_cast<__int128>(a.denominator) * b.denominator);
}
Number operator*(const Number &a, const Number &b) {
  if (!a.exact() || !b.exact())
    return Number::real(a.value() * b.value());
  return Number::fraction(static_cast<__int128>(a.numerator) * b.numerator,
                          static_cast<__int128>(a.denominator) * b.denominator);
}
Number operator/(const Number &a, const Number &b) {
  if (!a.exact() || !b.exact())
    return Number::real(a.value() / b.value());
  __int128 top = static_cast<__int128>(a.numerator) * b.denominator;
  __int128 bottom = static_cast<__int128>(a.denominator) * b.numerator;
  return bottom < 0 ? Number::fraction(-top, -bottom) : Number::fraction(top, bottom);
}
bool operator==(const Number &a, const Number &b) {
  if (a.exact() && b.exact())
    return a.numerator == b.numerator && a.denominator == b.denominator;
  return a.value() == b.value();
}
bool operator<(const Number &a, const Number &b) {
  if (a.exact() && b.exact())
    return static_cast<__int128>(a.numerator) * b.denominator < static_cast<__int128>(b.numerator) * a.denominator;
  return a.value() < b.value();
}
} // namespace echelon::frontend

Number Number::power(const Number &exponent) const {
  auto n = exponent.integer();
  if (!exact() || !n || *n > 64 || *n < -64 || (*n < 0 && numerator == 0))
    return real(std::pow(value(), exponent.value()));
  Number result = whole(1);
  for (int64_t i = 0; i < std::llabs(*n); ++i)
    result = result * *this;
  return *n < 0 ? whole(1) / result : result;
}

Number Number::floor() const {
  if (!exact())
    return real(std::floor(approximation));
  int64_t quotient = numerator / denominator;
  if (numerator % denominator < 0)
    --quotient;
  return whole(quotient);
}
