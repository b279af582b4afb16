#include "frontend/resolve/Arguments.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace echelon::frontend {

std::string plain(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.12g", value);
  return text;
}

std::string Interval::text() const {
  bool below = high<1e300, from = low> - 1e300;
  if (below && from && !openLow && !openHigh)
    return "between " + plain(low) + " and " + plain(high);
  std::string out;
  if (from)
    out = (openLow ? "above " : "at least ") + plain(low);
  if (below)
    out += (from ? " and " : "") + std::string(openHigh ? "below " : "at most ") + plain(high);
  return out;
}

std::string beyondFp32(double x) {
  if (x != 0 && std::abs(x) < double(std::numeric_limits<float>::min()))
    return plain(x) + ", which fp32 holds with fewer digits or as 0; use 0, or 1.2e-38 or more";
  if (std::isinf(static_cast<float>(x)))
    return plain(x) + ", and fp32 holds up to 3.4e38";
  return "";
}

bool isUnread(const Expr &e) {
  switch (e.kind) {
  case ExprKind::Number:
    return !cast<NumberExpr>(e).known;
  case ExprKind::Quantity:
    return !cast<QuantityExpr>(e).quantity.known;
  case ExprKind::Negate:
    return isUnread(*cast<NegateExpr>(e).operand);
  case ExprKind::Power:
    return isUnread(*cast<PowerExpr>(e).base) || isUnread(*cast<PowerExpr>(e).exponent);
  case ExprKind::Arithmetic: {
    const auto &chain = cast<ArithmeticExpr>(e);
    return isUnread(*chain.first) ||
           std::any_of(chain.rest.begin(), chain.rest.end(), [](const auto &rest) { return isUnread(*rest.operand); });
  }
  default:
    return false;
  }
}

std::optional<double> constant(const Expr &e) {
  switch (e.kind) {
  case ExprKind::Number:
    return cast<NumberExpr>(e).value;
  case ExprKind::Quantity: {
    const Quantity &q = cast<QuantityExpr>(e).quantity;
    return q.kind == UnitKind::Fraction ? std::optional<double>(q.value) : std::nullopt;
  }
  case ExprKind::Negate:
    if (auto x = constant(*cast<NegateExpr>(e).operand))
      return -*x;
    return std::nullopt;
  case ExprKind::Power: {
    auto base = constant(*cast<PowerExpr>(e).base), exponent = constant(*cast<PowerExpr>(e).exponent);
    return base && exponent ? std::optional<double>(std::pow(*base, *exponent)) : std::nullopt;
  }
  case ExprKind::Arithmetic: {
    const auto &chain = cast<ArithmeticExpr>(e);
    std::optional<double> value = constant(*chain.first);
    for (const auto &rest : chain.rest) {
      auto x = constant(*rest.operand);
      if (!value || !x)
        return std::nullopt;
      value = rest.op == '+' ? *value + *x : rest.op == '-' ? *value - *x : rest.op == '*' ? *value * *x : *value / *x;
    }
    return value;
  }
  default:
    return std::nullopt;
  }
}

std::string kindOf(const Expr &e) {
  switch (e.kind) {
  case ExprKind::String:
    return "a string";
  case ExprKind::Bool:
    return cast<BoolExpr>(e).value ? "'true'" : "'false'";
  case ExprKind::Path:
    return quoted(cast<PathExpr>(e).path.text());
  case ExprKind::Call:
    return "a call of " + quoted(cast<CallExpr>(e).callee.text());
  case ExprKind::Tuple:
    return "a list";
  case ExprKind::Quantity:
    return describe(cast<QuantityExpr>(e).quantity.kind);
  case ExprKind::Compare:
  case ExprKind::Logic:
  case ExprKind::Not:
    return "a condition";
  case ExprKind::Index:
    return "a part of a tensor";
  default:
    return "a number";
  }
}

Arguments::Arguments(const std::string &what, SourceRange range, const std::vector<Argument> &list,
                     const std::vector<std::string> &names, Diagnostics &diagnostics, const IsListed &isListed)
    : what(what), range(range), diagnostics(diagnostics) {
  size_t next = 0;
  for (const Argument &a : list) {
    if (isListed && isListed(a))
      continue;
    std::string name;
    if (a.name) {
      name = a.name->text;
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        std::string hint = didYouMean(name, names);
        if (hint.empty())
          hint = names.empty() ? "; it takes none" : "; it takes " + listed(names);
        diagnostics.error(Code::E0117, a.name->range, what + " has no argument " + quoted(name) + hint);
        misnamed = true;
        continue;
      }
    } else {
      if (next == names.size()) {
        diagnostics.error(Code::E0120, a.range,
                          names.empty() ? what + " takes no arguments"
                                        : what + " takes at most " + std::to_string(names.size()) +
                                              " arguments: " + listed(names));
        return;
      }
      name = names[next++];
    }
    if (!given.emplace(name, &a).second)
      diagnostics.error(Code::E0118, a.range, quoted(name) + " is given twice")
          .note(given.at(name)->range, "it is given here first");
  }
}

bool Arguments::require(const std::string &name) {
  if (!has(name) && !misnamed) // else it is probably the one that is misspelt
    diagnostics.error(Code::E0119, range,
                      what + " needs " + quoted(name) + (name == "lr" ? ", as in " + what + "(lr = 1e-3)" : ""));
  return has(name);
}

void Arguments::wrongKind(const std::string &name, const char *wanted) {
  const Expr &e = *given.at(name)->value;
  bool otherUnit = e.kind == ExprKind::Quantity;
  diagnostics.error(otherUnit ? Code::E0403 : Code::E0408, e.range,
                    quoted(name) + " of " + what + " is " + wanted + ", not " + kindOf(e));
}

std::optional<double> Arguments::number(const std::string &name, Interval allowed) {
  if (!has(name))
    return std::nullopt;
  const Expr &e = *given.at(name)->value;
  if (isUnread(e))
    return std::nullopt;
  std::optional<double> value = constant(e);
  if (!value || !std::isfinite(*value)) {
    if (value || kindOf(e) == "a number")
      diagnostics.error(Code::E0408, e.range,
                        quoted(name) + " of " + what + " is not a number that can be worked out here");
    else
      wrongKind(name, "a number");
    return std::nullopt;
  }
  if (!allowed.contains(*value)) {
    diagnostics.error(
        Code::E0404, e.range,
        quoted(name) + " of " + what + " is " + allowed.text() + ", not " + plain(*value) +
            (allowed.high == 1 && e.kind == ExprKind::Number && *value >= 2 && *value < 100
                 ? "; " + plain(*value) + " per cent are " + plain(*value / 100) + ", or " + plain(*value) + "%"
                 : ""));
    return std::nullopt;
  }
  if (const std::string beyond = beyondFp32(*value); !beyond.empty()) {
    diagnostics.error(Code::E0404, e.range, quoted(name) + " of " + what + " is " + beyond);
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> Arguments::whole(const std::string &name, Interval allowed) {
  std::optional<double> value = number(name, allowed);
  if (!value)
    return std::nullopt;
  if (*value != std::floor(*value) || std::abs(*value) > 9007199254740992.0) {
    diagnostics.error(Code::E0404, expr(name)->range,
                      quoted(name) + " of " + what + " is a whole number, not " + plain(*value));
    return std::nullopt;
  }
  return int64_t(*value);
}

std::optional<bool> Arguments::truth(const std::string &name) {
  if (!has(name))
    return std::nullopt;
  if (auto *b = dynCast<BoolExpr>(expr(name)))
    return b->value;
  wrongKind(name, "true or false");
  return std::nullopt;
}

std::optional<std::string> Arguments::string(const std::string &name) {
  if (!has(name))
    return std::nullopt;
  if (auto *s = dynCast<StringExpr>(expr(name)))
    return s->value;
  wrongKind(name, "a string");
  return std::nullopt;
}

std::optional<std::string> Arguments::word(const std::string &name) {
  if (!has(name))
    return std::nullopt;
  if (auto *p = dynCast<PathExpr>(expr(name)); p && p->path.single())
    return p->path.text();
  wrongKind(name, "a word");
  return std::nullopt;
}

std::optional<std::vector<double>> Arguments::numbers(const std::string &name, Interval allowed) {
  if (!has(name))
    return std::nullopt;
  auto *tuple = dynCast<TupleExpr>(expr(name));
  if (!tuple) {
    auto one = number(name, allowed);
    if (!one)
      return std::nullopt;
    return std::vector<double>{*one};
  }
  std::vector<double> out;
  for (const ExprPtr &e : tuple->elements) {
    if (isUnread(*e))
      return std::nullopt;
    auto value = constant(*e);
    if (!value || !std::isfinite(*value)) {
      diagnostics.error(Code::E0408, e->range,
                        quoted(name) + " of " + what + " is a list of numbers; this is " +
                            (value ? plain(*value) : kindOf(*e)));
      return std::nullopt;
    }
    if (!allowed.contains(*value)) {
      diagnostics.error(Code::E0404, e->range,
                        "each number in " + quoted(name) + " of " + what + " is " + allowed.text() + ", not " +
                            plain(*value));
      return std::nullopt;
    }
    if (const std::string beyond = beyondFp32(*value); !beyond.empty()) {
      diagnostics.error(Code::E0404, e->range, "one number in " + quoted(name) + " of " + what + " is " + beyond);
      return std::nullopt;
    }
    out.push_back(*value);
  }
  return out;
}

const CallExpr *Arguments::call(const std::string &name) {
  if (!has(name))
    return nullptr;
  if (auto *c = dynCast<CallExpr>(expr(name)))
    return c;
  wrongKind(name, "a call");
  return nullptr;
}

} // namespace echelon::frontend
