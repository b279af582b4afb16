// Expressions of the language. Chains of one precedence level are lists, so that a tree is never deeper than the
// nesting of the source, which is capped: recursion over expressions is safe.
#pragma once
#include "frontend/Source.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace echelon::frontend {

/// A name as written.
struct Ident {
  std::string text;
  SourceRange range;
  bool valid() const { return !text.empty(); }
};

/// Names joined by dots: `nn.linear`, `layer.attn.wq`, `tokens`.
struct Path {
  std::vector<Ident> parts;
  SourceRange range;
  std::string text() const {
    std::string s;
    for (const Ident &p : parts)
      s += (s.empty() ? "" : ".") + p.text;
    return s;
  }
  bool single() const { return parts.size() == 1; }
  const Ident &last() const { return parts.back(); }
};

enum class UnitKind { None, Bytes, BytesPerSecond, FlopPerSecond, Seconds, DollarsPerHour, Fraction };
/// "bytes", "bytes a second", …: for messages.
const char *describe(UnitKind kind);

/// A number with a unit, in base units: bytes, bytes/s, flop/s, seconds, $/h, a fraction of 1.
struct Quantity {
  double value = 0;
  UnitKind kind = UnitKind::None;
  std::string unit; // as written: "GB/s"
  SourceRange range;
  bool known = true; // false: too large or too small, which is reported
};

enum class ExprKind {
  Number,
  Quantity,
  String,
  Bool,
  Path,
  Call,
  Negate,
  Not,
  Arithmetic,
  Power,
  Compare,
  Logic,
  Tuple,
  Index
};

struct Expr {
  const ExprKind kind;
  SourceRange range;
  virtual ~Expr() = default;
  Expr(const Expr &) = delete;
  Expr &operator=(const Expr &) = delete;

protected:
  Expr(ExprKind kind, SourceRange range) : kind(kind), range(range) {}
};
using ExprPtr = std::unique_ptr<Expr>;

/// `dynCast<CallExpr>(e)`: the node as that class, or null (also for null).
template <typename T> const T *dynCast(const Expr *e) {
  return e && e->kind == T::Kind ? static_cast<const T *>(e) : nullptr;
}
template <typename T> const T *dynCast(const ExprPtr &e) { return dynCast<T>(e.get()); }
template <typename T> const T &cast(const Expr &e) { return static_cast<const T &>(e); }

/// `name = value`, `value`, `low .. high`, `0.7 of value`.
struct Argument {
  SourceRange range;
  std::optional<Ident> name;
  std::optional<Quantity> weight; // `0.7 of`: the share of a source in `mix`
  ExprPtr value;                  // the lower end of a range
  ExprPtr high;                   // set for `low .. high`
};

struct NumberExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::Number;
  double value = 0;
  bool isInteger = false; // written without point and exponent; then `integer` is exact
  int64_t integer = 0;
  std::string spelling;
  bool known = true; // false: too large or too small, which is reported
  explicit NumberExpr(SourceRange r) : Expr(Kind, r) {}
};

struct QuantityExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::Quantity;
  Quantity quantity;
  explicit QuantityExpr(SourceRange r) : Expr(Kind, r) {}
};

struct StringExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::String;
  std::string value; // escapes resolved
  explicit StringExpr(SourceRange r) : Expr(Kind, r) {}
};

struct BoolExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::Bool;
  bool value = false;
  explicit BoolExpr(SourceRange r) : Expr(Kind, r) {}
};

/// A value, an axis, a word such as `same` or `training`.
struct PathExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::Path;
  Path path;
  explicit PathExpr(SourceRange r) : Expr(Kind, r) {}
};

/// `relu(x)`, `nn.linear(h, hidden, class) as head`, `block(x) with head`.
struct CallExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::Call;
  Path callee;
  std::vector<Argument> arguments;
  std::optional<Ident> as;  // names the call's parameters
  std::optional<Path> with; // takes the parameters of an earlier call
  explicit CallExpr(SourceRange r) : Expr(Kind, r) {}
};

/// Unary minus.
struct NegateExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::Negate;
  ExprPtr operand;
  explicit NegateExpr(SourceRange r) : Expr(Kind, r) {}
};

struct NotExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::Not;
  ExprPtr operand;
  explicit NotExpr(SourceRange r) : Expr(Kind, r) {}
};

/// A chain of `+ -` or of `* /`, from left to right: `first op operand op operand …`.
struct ArithmeticExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::Arithmetic;
  struct Rest {
    char op; // + - * /
    SourceRange opRange;
    ExprPtr operand;
  };
  ExprPtr first;
  std::vector<Rest> rest; // at least one; ops of one precedence level
  explicit ArithmeticExpr(SourceRange r) : Expr(Kind, r) {}
};

/// `base ^ exponent`, from the right.
struct PowerExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::Power;
  ExprPtr base, exponent;
  SourceRange opRange;
  explicit PowerExpr(SourceRange r) : Expr(Kind, r) {}
};

struct CompareExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::Compare;
  enum Op { Eq, Ne, Lt, Le, Gt, Ge } op = Eq;
  SourceRange opRange;
  ExprPtr left, right;
  explicit CompareExpr(SourceRange r) : Expr(Kind, r) {}
};

/// A chain of `and`, or a chain of `or`.
struct LogicExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::Logic;
  bool isAnd = false;
  std::vector<ExprPtr> operands; // at least two
  explicit LogicExpr(SourceRange r) : Expr(Kind, r) {}
};

/// `(a, b)`: a list of axes, of numbers, of names.
struct TupleExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::Tuple;
  std::vector<ExprPtr> elements; // at least two
  explicit TupleExpr(SourceRange r) : Expr(Kind, r) {}
};

/// One entry in brackets after a value.
struct Place {
  enum Kind {
    At,     // axis = value: a gather (int tensor) or a pick (position)
    Slice,  // axis = low .. high, half open
    Rename, // axis -> other
    Split,  // axis -> (a, b), slowest first
    Merge,  // (a, b) -> axis
    Expand, // + axis, or + axis = size
  } kind = At;
  SourceRange range;
  std::vector<Ident> from; // the axes of the operand that it names; empty for Expand
  std::vector<Ident> to;   // the axes that come out; empty for At and Slice
  ExprPtr value;           // At: index or position; Slice: low; Expand: size, may be null
  ExprPtr high;            // Slice
};

/// `x[vocab = tokens]`, `x[seq -> past][+ batch]`: brackets apply from left to right, the places of one act at once.
struct IndexExpr : Expr {
  static constexpr ExprKind Kind = ExprKind::Index;
  struct Bracket {
    SourceRange range;
    std::vector<Place> places;
  };
  ExprPtr base;
  std::vector<Bracket> brackets;
  explicit IndexExpr(SourceRange r) : Expr(Kind, r) {}
};

} // namespace echelon::frontend
