// Expressions: from parse tree to syntax tree.
#include "frontend/parse/AstBuilder.h"
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

using antlr4::Token;
using antlr4::tree::TerminalNode;

namespace echelon::frontend {

namespace {
template <typename T> std::unique_ptr<T> make(SourceRange range) { return std::make_unique<T>(range); }

struct Unit {
  UnitKind kind;
  double factor;
};

const std::map<std::string, Unit> &units() {
  static const std::map<std::string, Unit> table = [] {
    std::map<std::string, Unit> t = {{"ns", {UnitKind::Seconds, 1e-9}}, {"us", {UnitKind::Seconds, 1e-6}},
                                     {"ms", {UnitKind::Seconds, 1e-3}}, {"s", {UnitKind::Seconds, 1}},
                                     {"min", {UnitKind::Seconds, 60}},  {"h", {UnitKind::Seconds, 3600}},
                                     {"d", {UnitKind::Seconds, 86400}}, {"B", {UnitKind::Bytes, 1}},
                                     {"%", {UnitKind::Fraction, 0.01}}, {"$/h", {UnitKind::DollarsPerHour, 1}}};
    double decimal = 1, binary = 1;
    for (const char *prefix : {"K", "M", "G", "T"}) {
      std::string p = prefix;
      decimal *= 1e3;
      binary *= 1024;
      t[p + "B"] = {UnitKind::Bytes, decimal};
      t[p + "iB"] = {UnitKind::Bytes, binary};
      t[p + "B/s"] = {UnitKind::BytesPerSecond, decimal};
      t[p + "b/s"] = {UnitKind::BytesPerSecond, decimal / 8};
    }
    t["GFLOP/s"] = {UnitKind::FlopPerSecond, 1e9};
    t["TFLOP/s"] = {UnitKind::FlopPerSecond, 1e12};
    t["PFLOP/s"] = {UnitKind::FlopPerSecond, 1e15};
    return t;
  }();
  return table;
}

// How many characters of `80GB` are the number.
size_t numberLength(const std::string &text) {
  size_t i = 0;
  auto digits = [&] {
    while (i < text.size() && (std::isdigit(static_cast<unsigned char>(text[i])) || text[i] == '_'))
      ++i;
  };
  digits();
  if (i + 1 < text.size() && text[i] == '.' && std::isdigit(static_cast<unsigned char>(text[i + 1]))) {
    ++i;
    digits();
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    size_t mark = i++;
    if (i < text.size() && (text[i] == '+' || text[i] == '-'))
      ++i;
    size_t first = i;
    digits();
    if (i == first)
      i = mark;
  }
  return i;
}

std::string withoutUnderscores(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  return text;
}
} // namespace

const char *describe(UnitKind kind) {
  switch (kind) {
  case UnitKind::None:
    return "a plain number";
  case UnitKind::Bytes:
    return "an amount of memory";
  case UnitKind::BytesPerSecond:
    return "a rate of data";
  case UnitKind::FlopPerSecond:
    return "a rate of operations";
  case UnitKind::Seconds:
    return "a time";
  case UnitKind::DollarsPerHour:
    return "a price";
  case UnitKind::Fraction:
    return "a fraction";
  }
  return "";
}

ExprPtr AstBuilder::expression(P::ExpressionContext *c) {
  if (c->conjunction().size() == 1)
    return conjunction(c->conjunction(0));
  auto e = make<LogicExpr>(range(c));
  for (auto *part : c->conjunction())
    e->operands.push_back(conjunction(part));
  return e;
}

ExprPtr AstBuilder::conjunction(P::ConjunctionContext *c) {
  if (c->negation().size() == 1)
    return negation(c->negation(0));
  auto e = make<LogicExpr>(range(c));
  e->isAnd = true;
  for (auto *part : c->negation())
    e->operands.push_back(negation(part));
  return e;
}

ExprPtr AstBuilder::negation(P::NegationContext *c) {
  if (!c->NOT())
    return comparison(c->comparison());
  auto e = make<NotExpr>(range(c));
  e->operand = negation(c->negation());
  return e;
}

ExprPtr AstBuilder::comparison(P::ComparisonContext *c) {
  if (c->sum().size() == 1)
    return sum(c->sum(0));
  auto e = make<CompareExpr>(range(c));
  auto *op = static_cast<TerminalNode *>(c->children[1]);
  static const std::map<size_t, CompareExpr::Op> ops = {{P::EQ, CompareExpr::Eq}, {P::NE, CompareExpr::Ne},
                                                        {P::LT, CompareExpr::Lt}, {P::LE, CompareExpr::Le},
                                                        {P::GT, CompareExpr::Gt}, {P::GE, CompareExpr::Ge}};
  e->op = ops.at(op->getSymbol()->getType());
  e->opRange = range(op);
  e->left = sum(c->sum(0));
  e->right = sum(c->sum(1));
  return e;
}

ExprPtr AstBuilder::sum(P::SumContext *c) {
  if (c->children.size() == 1)
    return product(c->product(0));
  auto e = make<ArithmeticExpr>(range(c));
  e->first = product(static_cast<P::ProductContext *>(c->children[0]));
  for (size_t i = 1; i + 1 < c->children.size();
       i += 2) { // by position: asking for the i-th product would be quadratic
    auto *op = static_cast<TerminalNode *>(c->children[i]);
    e->rest.push_back({op->getText()[0], range(op), product(static_cast<P::ProductContext *>(c->children[i + 1]))});
  }
  return e;
}

ExprPtr AstBuilder::product(P::ProductContext *c) {
  if (c->children.size() == 1)
    return unary(c->unary(0));
  auto e = make<ArithmeticExpr>(range(c));
  e->first = unary(static_cast<P::UnaryContext *>(c->children[0]));
  for (size_t i = 1; i + 1 < c->children.size(); i += 2) {
    auto *op = static_cast<TerminalNode *>(c->children[i]);
    e->rest.push_back({op->getText()[0], range(op), unary(static_cast<P::UnaryContext *>(c->children[i + 1]))});
  }
  return e;
}

ExprPtr AstBuilder::unary(P::UnaryContext *c) {
  if (!c->MINUS())
    return power(c->power());
  auto e = make<NegateExpr>(range(c));
  e->operand = unary(c->unary());
  return e;
}

ExprPtr AstBuilder::power(P::PowerContext *c) {
  if (!c->CARET())
    return term(c->term());
  auto e = make<PowerExpr>(range(c));
  e->opRange = range(c->CARET());
  e->base = term(c->term());
  e->exponent = unary(c->unary());
  return e;
}

ExprPtr AstBuilder::term(P::TermContext *c) {
  if (c->children.size() == 1)
    return primary(c->primary());
  auto e = make<IndexExpr>(range(c));
  e->base = primary(c->primary());
  Token *open = nullptr;
  for (auto *child : c->children) {
    if (auto *p = dynamic_cast<P::PlaceContext *>(child)) {
      e->brackets.back().places.push_back(place(p));
    } else if (auto *t = dynamic_cast<TerminalNode *>(child)) {
      if (t->getSymbol()->getType() == P::LBRACKET) {
        open = t->getSymbol();
        e->brackets.emplace_back();
      } else if (t->getSymbol()->getType() == P::RBRACKET) {
        e->brackets.back().range = range(open, t->getSymbol());
      }
    }
  }
  return e;
}

ExprPtr AstBuilder::primary(P::PrimaryContext *c) {
  if (auto *n = dynamic_cast<P::NumberPrimaryContext *>(c))
    return number(n->quantity());
  if (auto *s = dynamic_cast<P::StringPrimaryContext *>(c)) {
    auto e = make<StringExpr>(range(c));
    e->value = stringValue(s->STRING());
    return e;
  }
  if (auto *p = dynamic_cast<P::PathPrimaryContext *>(c)) {
    if (!p->arguments()) {
      auto e = make<PathExpr>(range(c));
      e->path = path(p->path(0));
      return e;
    }
    ExprPtr e = call(p->path(0), p->arguments());
    auto *callExpr = static_cast<CallExpr *>(e.get());
    callExpr->range = range(c);
    if (p->AS())
      callExpr->as = ident(p->name());
    if (p->WITH())
      callExpr->with = path(p->path(1));
    return e;
  }
  if (auto *p = dynamic_cast<P::ParenPrimaryContext *>(c)) {
    if (p->expression().size() == 1)
      return expression(p->expression(0));
    auto e = make<TupleExpr>(range(c));
    for (auto *part : p->expression())
      e->elements.push_back(expression(part));
    return e;
  }
  auto e = make<BoolExpr>(range(c));
  e->value = dynamic_cast<P::TruePrimaryContext *>(c) != nullptr;
  return e;
}

ExprPtr AstBuilder::call(P::PathContext *callee, P::ArgumentsContext *args) {
  auto e = make<CallExpr>(join(range(callee), range(args)));
  e->callee = path(callee);
  e->arguments = arguments(args);
  for (const Argument &a : e->arguments)
    if (a.weight && e->callee.text() != "mix")
      diagnostics.error(Code::E0019, a.range, "a share such as '0.7 of SOURCE' belongs only in mix(…)");
  return e;
}

Place AstBuilder::place(P::PlaceContext *c) {
  Place p;
  p.range = range(c);
  if (auto *at = dynamic_cast<P::AtPlaceContext *>(c)) {
    p.from = {ident(at->name())};
    auto ends = at->value()->expression();
    p.value = expression(ends[0]);
    if (ends.size() == 2) {
      p.kind = Place::Slice;
      p.high = expression(ends[1]);
    }
  } else if (auto *rename = dynamic_cast<P::RenamePlaceContext *>(c)) {
    p.from = {ident(rename->name())};
    p.to = idents(rename->placeNames()->name());
    p.kind = p.to.size() == 1 ? Place::Rename : Place::Split;
  } else if (auto *merge = dynamic_cast<P::MergePlaceContext *>(c)) {
    p.kind = Place::Merge;
    p.from = idents(merge->name());
    p.to = {p.from.back()};
    p.from.pop_back();
  } else {
    auto *expand = static_cast<P::ExpandPlaceContext *>(c);
    p.kind = Place::Expand;
    p.to = {ident(expand->name())};
    if (expand->expression())
      p.value = expression(expand->expression());
  }
  return p;
}

std::vector<Argument> AstBuilder::arguments(P::ArgumentsContext *c) {
  return c ? arguments(c->argument()) : std::vector<Argument>();
}

std::vector<Argument> AstBuilder::arguments(const std::vector<P::ArgumentContext *> &list) {
  std::vector<Argument> out;
  for (auto *a : list)
    out.push_back(argument(a));
  return out;
}

Argument AstBuilder::argument(P::ArgumentContext *c) {
  Argument a;
  a.range = range(c);
  if (c->name())
    a.name = ident(c->name());
  if (c->quantity())
    a.weight = quantity(c->quantity());
  auto ends = c->value()->expression();
  a.value = expression(ends[0]);
  if (ends.size() == 2) {
    a.high = expression(ends[1]);
    if (!rangesAllowed)
      diagnostics.error(Code::E0019, range(c->value()),
                        "a range belongs in a slice, x[seq = 0..10], or in search; not here");
  }
  return a;
}

std::optional<double> AstBuilder::numberValue(Token *token, const std::string &digits) {
  std::string plain = withoutUnderscores(digits);
  double value = 0;
  auto result = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (result.ec != std::errc::result_out_of_range)
    return value;
  value = std::strtod(plain.c_str(), nullptr); // tells what is too large from what is too small
  if (std::isfinite(value) && value != 0)
    return value;
  diagnostics.error(Code::E0704, places.of(token),
                    value == 0 ? "the number is too small; the smallest above 0 is 4.9e-324"
                               : "the number is too large; the largest is 1.8e308");
  return std::nullopt;
}

ExprPtr AstBuilder::number(P::QuantityContext *c) {
  Token *token = c->start;
  if (c->QUANTITY() || c->UNIT() || c->RATE() || c->PERCENT()) {
    auto e = make<QuantityExpr>(range(c));
    e->quantity = quantity(c);
    if (!unitsAllowed)
      diagnostics.error(Code::E0017, range(c),
                        "a number with a unit belongs only in device, link, cluster and train; write the plain number");
    return e;
  }
  auto e = make<NumberExpr>(range(c));
  e->spelling = token->getText();
  const std::optional<double> value = numberValue(token, e->spelling);
  e->value = value.value_or(1);
  e->known = value.has_value();
  std::string digits = withoutUnderscores(e->spelling);
  e->isInteger = digits.find_first_not_of("0123456789") == std::string::npos;
  if (e->isInteger && e->known) {
    auto result = std::from_chars(digits.data(), digits.data() + digits.size(), e->integer);
    if (result.ec != std::errc() || e->integer > int64_t(1) << 53) {
      diagnostics.error(Code::E0704, range(c), "the number is too large; whole numbers go up to 2^53");
      e->known = false;
    }
  }
  return e;
}

Quantity AstBuilder::quantity(P::QuantityContext *c) {
  Token *unit = c->stop != c->start ? c->stop : nullptr;
  return quantity(c->start, unit);
}

Quantity AstBuilder::quantity(Token *number, Token *unit) {
  Quantity q;
  std::string text = number->getText();
  size_t digits = numberLength(text);
  q.unit = unit ? unit->getText() : text.substr(digits);
  q.range = range(number, unit ? unit : number);
  const std::optional<double> value = numberValue(number, text.substr(0, digits));
  q.known = value.has_value();
  // Of one that cannot be read, nothing else is found wrong.
  q.value = value.value_or(std::numeric_limits<double>::infinity());
  if (auto it = units().find(q.unit); it != units().end()) {
    q.kind = it->second.kind;
    q.value *= it->second.factor;
  }
  return q;
}

std::string AstBuilder::stringValue(TerminalNode *n) {
  std::string text = n->getText(), out;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    char c = text[++i];
    out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
  }
  return out;
}

Method AstBuilder::method(P::MethodContext *c) {
  Method m;
  m.name = c->name() ? ident(c->name()) : ident(c->ONE_F_ONE_B());
  m.arguments = arguments(c->arguments());
  m.range = range(c);
  return m;
}

Ident AstBuilder::ident(P::NameContext *c) { return {c->getText(), range(c)}; }

Ident AstBuilder::ident(TerminalNode *n) { return {n->getText(), range(n)}; }

std::vector<Ident> AstBuilder::idents(const std::vector<P::NameContext *> &list) {
  std::vector<Ident> out;
  for (auto *n : list)
    out.push_back(ident(n));
  return out;
}

Path AstBuilder::path(P::PathContext *c) { return {idents(c->name()), range(c)}; }

std::vector<Path> AstBuilder::paths(const std::vector<P::PathContext *> &list) {
  std::vector<Path> out;
  for (auto *p : list)
    out.push_back(path(p));
  return out;
}

} // namespace echelon::frontend
