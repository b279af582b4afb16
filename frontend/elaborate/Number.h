// Numbers known when compiling: exact fractions as long as they fit, so that sizes are exact; else real numbers.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace echelon::frontend {

class Number {
public:
  Number() = default;
  static Number whole(int64_t value) { return fraction(value, 1); }
  /// `denominator` > 0. Reduced; a real number where the reduced fraction does not fit.
  static Number fraction(__int128 numerator, __int128 denominator);
  static Number real(double value);
  /// A number as written in a spec: `12`, `1_024`, `0.1`, `6e-4`; decimals are exact fractions.
  static Number spelled(const std::string &text, double value);

  bool exact() const { return denominator != 0; }
  std::optional<int64_t> integer() const;
  double value() const;
  /// As in a spec: "12", "0.25", "10/3".
  std::string text() const;

  friend Number operator+(const Number &a, const Number &b);
  friend Number operator-(const Number &a, const Number &b);
  friend Number operator*(const Number &a, const Number &b);
  /// `b` is not zero.
  friend Number operator/(const Number &a, const Number &b);
  friend Number operator-(const Number &a) { return Number::whole(0) - a; }
  friend bool operator==(const Number &a, const Number &b);
  friend bool operator<(const Number &a, const Number &b);

  Number power(const Number &exponent) const;
  Number floor() const;
  Number ceil() const { return -((-*this).floor()); }
  bool isZero() const { return value() == 0; }

private:
  int64_t numerator = 0, denominator = 1; // denominator 0: `approximation` holds the value
  double approximation = 0;
};

} // namespace echelon::frontend
