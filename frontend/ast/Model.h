// Models and blocks: what is computed.
#pragma once
#include "frontend/ast/Expr.h"

namespace echelon::frontend {

/// A word and its arguments: `normal(0.02)`, `topk(1%)`, `ring`, `flip`.
struct Method {
  Ident name;
  std::vector<Argument> arguments;
  SourceRange range;
};

struct Formal {
  Ident name;
  bool isAxis = false; // `name: axis`
  ExprPtr value;       // the default, or null
  SourceRange range;
};

enum class StatementKind {
  Axis,
  Input,
  Param,
  State,
  Next,
  Random,
  Repeat,
  RepeatAlong,
  If,
  Loss,
  Metric,
  Return,
  Assign
};

struct Statement {
  const StatementKind kind;
  SourceRange range; // from the first to the last token; for repeat and if, the head up to the brace
  virtual ~Statement() = default;
  Statement(const Statement &) = delete;
  Statement &operator=(const Statement &) = delete;

protected:
  explicit Statement(StatementKind kind) : kind(kind) {}
};
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

template <typename T> const T *dynCast(const Statement *s) {
  return s && s->kind == T::Kind ? static_cast<const T *>(s) : nullptr;
}
template <typename T> const T *dynCast(const StatementPtr &s) { return dynCast<T>(s.get()); }
template <typename T> const T &cast(const Statement &s) { return static_cast<const T &>(s); }

/// `axis n = size`, `axis n like m`, `axis batch` (open).
struct AxisStatement : Statement {
  static constexpr StatementKind Kind = StatementKind::Axis;
  Ident name;
  ExprPtr size; // or null
  std::optional<Ident> like;
  bool open() const { return !size && !like; }
  AxisStatement() : Statement(Kind) {}
};

/// `input n[axes] : float | bool | int below AXIS`
struct InputStatement : Statement {
  static constexpr StatementKind Kind = StatementKind::Input;
  enum Element { Float, Bool, Int };
  Ident name;
  std::vector<Ident> axes;
  Element element = Float;
  std::optional<Ident> below; // for Int
  SourceRange typeRange;
  InputStatement() : Statement(Kind) {}
};

/// `param n[axes] ~ normal(std)`
struct ParamStatement : Statement {
  static constexpr StatementKind Kind = StatementKind::Param;
  Ident name;
  std::vector<Ident> axes;
  Method start; // normal(std), uniform(lo, hi), zeros, ones, kaiming(over = axes)
  ParamStatement() : Statement(Kind) {}
};

/// `state n[axes] = e`
struct StateStatement : Statement {
  static constexpr StatementKind Kind = StatementKind::State;
  Ident name;
  std::vector<Ident> axes;
  ExprPtr value;
  StateStatement() : Statement(Kind) {}
};

/// `next n = e`
struct NextStatement : Statement {
  static constexpr StatementKind Kind = StatementKind::Next;
  Ident name;
  ExprPtr value;
  NextStatement() : Statement(Kind) {}
};

/// `random e[axes] ~ normal(1)`
struct RandomStatement : Statement {
  static constexpr StatementKind Kind = StatementKind::Random;
  Ident name;
  std::vector<Ident> axes;
  Method distribution;
  RandomStatement() : Statement(Kind) {}
};

/// `repeat layer = N { … }`
struct RepeatStatement : Statement {
  static constexpr StatementKind Kind = StatementKind::Repeat;
  Ident axis;
  ExprPtr count;
  Body body;
  SourceRange end; // the closing brace
  RepeatStatement() : Statement(Kind) {}
};

/// `repeat along seq { … }`
struct RepeatAlongStatement : Statement {
  static constexpr StatementKind Kind = StatementKind::RepeatAlong;
  Ident axis;
  Body body;
  SourceRange end;
  RepeatAlongStatement() : Statement(Kind) {}
};

/// `if c { … } else if d { … } else { … }`, decided at compile time.
struct IfStatement : Statement {
  static constexpr StatementKind Kind = StatementKind::If;
  struct Branch {
    ExprPtr condition;
    Body body;
  };
  std::vector<Branch> branches; // at least one
  std::optional<Body> otherwise;
  IfStatement() : Statement(Kind) {}
};

/// `loss e`, `loss NAME = e`
struct LossStatement : Statement {
  static constexpr StatementKind Kind = StatementKind::Loss;
  std::optional<Ident> name;
  ExprPtr value;
  LossStatement() : Statement(Kind) {}
};

struct MetricStatement : Statement {
  static constexpr StatementKind Kind = StatementKind::Metric;
  Ident name;
  ExprPtr value;
  MetricStatement() : Statement(Kind) {}
};

struct ReturnStatement : Statement {
  static constexpr StatementKind Kind = StatementKind::Return;
  ExprPtr value;
  ReturnStatement() : Statement(Kind) {}
};

struct AssignStatement : Statement {
  static constexpr StatementKind Kind = StatementKind::Assign;
  Ident name;
  ExprPtr value;
  AssignStatement() : Statement(Kind) {}
};

struct Model {
  Ident name;
  std::vector<Formal> formals;
  Body body;
  SourceRange range, end; // the head, the closing brace
  bool broken = false;    // something in it could not be read: do not report what follows from its absence
};

struct Block {
  Ident name;
  std::vector<Formal> formals;
  Body body;
  SourceRange range, end;
  bool broken = false;
  FileId file = -1; // names in the body are looked up from here
};

} // namespace echelon::frontend
