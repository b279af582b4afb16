// Arguments of methods in train blocks: bound to the names they may have, and read as numbers, words and lists.
#pragma once
#include "frontend/Diagnostics.h"
#include "frontend/ast/Train.h"
#include <functional>
#include <map>
#include <set>

namespace echelon::frontend {

/// What a number may be. An open end excludes its value.
struct Interval {
  double low = -1e300, high = 1e300;
  bool openLow = false, openHigh = false;
  bool contains(double x) const { return (openLow ? x > low : x >= low) && (openHigh ? x < high : x <= high); }
  /// "at least 0", "between 0 and 1": how a message says it.
  std::string text() const;
};
inline Interval atLeast(double low) { return {low, 1e300, false, false}; }
inline Interval above(double low) { return {low, 1e300, true, false}; }
/// Of a share: 0 to below 1.
inline Interval belowOne() { return {0, 1, false, true}; }

/// What a message says of a number that is not one in fp32, the smallest precision that trains; empty for others.
std::string beyondFp32(double x);

/// The arguments of one call, by name. Unknown names, arguments given twice and too many are reported when it is made;
/// the getters report what is of the wrong kind or out of range, and then give nothing.
class Arguments {
public:
  /// Whether an argument is one of a list of any length, which the caller reads itself.
  using IsListed = std::function<bool(const Argument &)>;
  /// `names`: in the order in which they may be given without name. `what`: how messages name the call.
  Arguments(const std::string &what, SourceRange range, const std::vector<Argument> &list,
            const std::vector<std::string> &names, Diagnostics &diagnostics, const IsListed &isListed = nullptr);

  bool has(const std::string &name) const { return given.count(name) != 0; }
  /// Reports a missing argument.
  bool require(const std::string &name);
  const Expr *expr(const std::string &name) const { return has(name) ? given.at(name)->value.get() : nullptr; }
  SourceRange rangeOf(const std::string &name) const { return has(name) ? given.at(name)->range : range; }

  std::optional<double> number(const std::string &name, Interval allowed = {});
  std::optional<int64_t> whole(const std::string &name, Interval allowed = {});
  std::optional<bool> truth(const std::string &name);
  std::optional<std::string> string(const std::string &name);
  std::optional<std::string> word(const std::string &name);
  /// `(a, b)`, or a single number as a list of one.
  std::optional<std::vector<double>> numbers(const std::string &name, Interval allowed = {});
  const CallExpr *call(const std::string &name);

private:
  void wrongKind(const std::string &name, const char *wanted);
  std::string what;
  SourceRange range;
  std::map<std::string, const Argument *> given;
  Diagnostics &diagnostics;
  bool misnamed = false; // an argument of an unknown name was reported
};

/// Whether a number in an expression is too large or too small to be read, which is reported.
bool isUnread(const Expr &e);

/// The value of an expression of numbers, signs and operators, `10%` as 0.1. Nothing where there is anything else in it
/// (a name, a call, a quantity of another kind).
std::optional<double> constant(const Expr &e);
/// What an expression is, for "… stands here, not a string".
std::string kindOf(const Expr &e);
/// 0.1, 1e-05, 500: a number in a message.
std::string plain(double value);

} // namespace echelon::frontend
