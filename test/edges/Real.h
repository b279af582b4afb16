// Numbers that know how far a computation in fp32 may be from them: the reference of the net.
//
// A Real is a value, computed here in long double (64 bits of mantissa, no overflow), and a bound on the error that the
// same value has where every operation rounds to fp32: Wilkinson's running error analysis (Higham, "Accuracy and
// Stability of Numerical Algorithms", section 3.3). An operation z = f(x, y) has the error
//     |df/dx| error(x) + |df/dy| error(y) + (its own roundings) * u * |z|,   u = 2^-24,
// and so has each product of its derivative. Own roundings are counted from the operation's formula, and where a
// kernel's header promises an accuracy, they are that promise. Bounds are of first order; a bound that is as large as
// the value says that fp32 does not determine the value.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace echelon::edges {

using Wide = long double;
constexpr Wide u = 0x1p-24L;      // half the distance from 1 to the next float
constexpr Wide kTiny = 0x1p-149L; // the least float: a rounding below the normal ones
/// Elementwise.h: "a relative error below 3e-7"; and exp is 0 below 1.7e-38.
constexpr Wide kFunction = 3e-7L / u, kFlushed = 1.7e-38L;

constexpr Wide kInfinity = std::numeric_limits<Wide>::infinity();
/// 0 times inf is nothing here: what has no error adds none.
inline Wide times(Wide error, Wide size) { return error == 0 || size == 0 ? 0 : error * std::fabs(size); }
inline Wide magnitude(Wide x) { return std::fabs(x); }

class Real {
public:
  Real() = default;
  /// A number without an error.
  Real(Wide value);
  Wide value() const;
  Wide error() const;
  /// The derivative of what `derive` was called with, and its bound.
  Wide slope() const;
  Wide slopeError() const;
  int place() const { return at; }

  struct Edge;
  /// The result of an operation: overflow is as in fp32.
  static Real result(Wide value, Wide error, const std::vector<Edge> &edges);

private:
  int at = -1;
};
struct Real::Edge { // d result / d operand, and how wrong fp32 has it
  Real from;
  Wide slope, error;
  /// What comes from a sum that is added up elsewhere: an error in terms of the sizes that the result's slope is the
  /// sum of, which may have cancelled in it.
  Wide ofSizes = 0;
};
using Reals = std::vector<Real>;

/// Forgets all numbers.
void forget();
/// Derivatives of the sum of weights[i] * values[i].
void derive(const Reals &values, const std::vector<double> &weights);

//===- arithmetic ------------------------------------------------------------------------------------------------===//

Real operator+(Real a, Real b);
Real operator-(Real a, Real b);
Real operator-(Real a);
Real operator*(Real a, Real b);
Real operator/(Real a, Real b);
/// A function whose value, derivative and second derivative in a are known. Its own errors: `roundings` * u of the
/// value and `absolute`; of the derivative likewise.
Real apply(Real a, Wide value, Wide slope, Wide curvature, Wide roundings = kFunction, Wide absolute = 0,
           Wide slopeRoundings = 2 * kFunction, Wide slopeAbsolute = 0);

Real sin(Real a);
Real cos(Real a);
Real exp(Real a);
Real tanh(Real a);
Real sigmoid(Real a);
Real silu(Real a);
Real gelu(Real a);
Real geluTanh(Real a);
Real relu(Real a);
Real rsqrt(Real a);
Real square(Real a);

//===- many operands ---------------------------------------------------------------------------------------------===//

/// A long sum (BlockedSum.h): a block of 256 goes through 8 additions of vectors in one of 4 chains, 2 of the chains
/// and 4 of the lanes, or, where it is no row of vectors, one for each element of the rest; blocks are added up in
/// double.
constexpr int64_t kBlockedAdditions = 8 + 2 + 4 + 16;
/// n - 1 additions in any order: (n - 1) u times the sum of sizes (Higham, (4.3)). `additions`: how many roundings a
/// kernel promises that a term goes through, where that is less.
Real sum(const Reals &x, Wide additions = -1);
/// n products and n - 1 additions in any order.
Real dot(const Reals &a, const Reals &b);
/// All over `x`; what `mask` leaves out (empty: nothing) is not there.
Reals softmax(const Reals &x, const std::vector<bool> &mask = {});
Real logSumExp(const Reals &x, const std::vector<bool> &mask = {});
Reals logSoftmax(const Reals &x, const std::vector<bool> &mask = {});
Real crossEntropy(const Reals &x, size_t label);
Real crossEntropy(const Reals &x, const Reals &target);
/// sum of softmax(scores)[j] * values[j][e], for each e.
Reals attend(const Reals &scores, const std::vector<bool> &mask, const std::vector<Reals> &values);
/// The lowest place wins.
Real maximum(const Reals &x);
Real minimum(const Reals &x);
size_t argmax(const Reals &x);

struct Norm {
  Reals y;
  Real mean, variance;
};
Norm normalize(const Reals &x, bool rms = false);

} // namespace echelon::edges
