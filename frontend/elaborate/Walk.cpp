#include "frontend/elaborate/Walk.h"
#include <algorithm>

using namespace echelon::frontend;

namespace {

/// Visits the expressions of statements, in source order but for calls in arguments, which come after their call.
struct Walker {
  std::function<void(const CallExpr &)> onCall = [](const CallExpr &) {};
  std::function<void(const Path &)> onPath = [](const Path &) {};
  std::function<void(const AssignStatement &)> onAssign = [](const AssignStatement &) {};
  std::function<void(const Statement &)> onStatement = [](const Statement &) {};
  bool intoRepeats = true;

  void walk(const Expr *e) {
    if (!e)
      return;
    switch (e->kind) {
    case ExprKind::Number:
    case ExprKind::Quantity:
    case ExprKind::String:
    case ExprKind::Bool:
      return;
    case ExprKind::Path:
      return onPath(cast<PathExpr>(*e).path);
    case ExprKind::Call: {
      const auto &call = cast<CallExpr>(*e);
      onCall(call);
      for (const Argument &a : call.arguments) {
        walk(a.value.get());
        walk(a.high.get());
      }
      return;
    }
    case ExprKind::Negate:
      return walk(cast<NegateExpr>(*e).operand.get());
    case ExprKind::Not:
      return walk(cast<NotExpr>(*e).operand.get());
    case ExprKind::Arithmetic: {
      const auto &chain = cast<ArithmeticExpr>(*e);
      walk(chain.first.get());
      for (const auto &rest : chain.rest)
        walk(rest.operand.get());
      return;
    }
    case ExprKind::Power:
      walk(cast<PowerExpr>(*e).base.get());
      return walk(cast<PowerExpr>(*e).exponent.get());
    case ExprKind::Compare:
      walk(cast<CompareExpr>(*e).left.get());
      return walk(cast<CompareExpr>(*e).right.get());
    case ExprKind::Logic:
      for (const ExprPtr &operand : cast<LogicExpr>(*e).operands)
        walk(operand.get());
      return;
    case ExprKind::Tuple:
      for (const ExprPtr &element : cast<TupleExpr>(*e).elements)
        walk(element.get());
      return;
    case ExprKind::Index: {
      const auto &index = cast<IndexExpr>(*e);
      walk(index.base.get());
      for (const auto &bracket : index.brackets)
        for (const Place &place : bracket.places) {
          walk(place.value.get());
          walk(place.high.get());
        }
      return;
    }
    }
  }

  void walk(const Method &method) {
    for (const Argument &a : method.arguments)
      walk(a.value.get());
  }

  void walk(const Body &body) {
    for (const StatementPtr &s : body)
      if (s)
        walk(*s);
  }

  void walk(const Statement &s) {
    onStatement(s);
    switch (s.kind) {
    case StatementKind::Axis:
      return walk(cast<AxisStatement>(s).size.get());
    case StatementKind::Input:
      return;
    case StatementKind::Param:
      return walk(cast<ParamStatement>(s).start);
    case StatementKind::State:
      return walk(cast<StateStatement>(s).value.get());
    case StatementKind::Next:
      return walk(cast<NextStatement>(s).value.get());
    case StatementKind::Random:
      return walk(cast<RandomStatement>(s).distribution);
    case StatementKind::Repeat:
      walk(cast<RepeatStatement>(s).count.get());
      if (intoRepeats)
        walk(cast<RepeatStatement>(s).body);
      return;
    case StatementKind::RepeatAlong:
      return walk(cast<RepeatAlongStatement>(s).body);
    case StatementKind::If: {
      const auto &branches = cast<IfStatement>(s);
      for (const auto &branch : branches.branches) {
        walk(branch.condition.get());
        walk(branch.body);
      }
      if (branches.otherwise)
        walk(*branches.otherwise);
      return;
    }
    case StatementKind::Loss:
      return walk(cast<LossStatement>(s).value.get());
    case StatementKind::Metric:
      return walk(cast<MetricStatement>(s).value.get());
    case StatementKind::Return:
      return walk(cast<ReturnStatement>(s).value.get());
    case StatementKind::Assign:
      walk(cast<AssignStatement>(s).value.get());
      return onAssign(cast<AssignStatement>(s));
    }
  }
};

} // namespace

std::map<std::string, SourceRange> echelon::frontend::namesAssigned(const Body &body) {
  std::map<std::string, SourceRange> names;
  Walker walker;
  walker.onAssign = [&](const AssignStatement &s) { names.emplace(s.name.text, s.name.range); };
  walker.walk(body);
  return names;
}

std::set<std::string> echelon::frontend::namesReadAfter(const Body &body, uint32_t offset) {
  std::set<std::string> names;
  Walker walker;
  walker.onPath = [&](const Path &path) {
    if (path.single() && path.range.offset >= offset)
      names.insert(path.parts[0].text);
  };
  walker.walk(body);
  return names;
}

void echelon::frontend::forEachStatement(const Body &body, const std::function<void(const Statement &)> &visit) {
  Walker walker;
  walker.onStatement = visit;
  walker.walk(body);
}

std::map<const CallExpr *, std::string> echelon::frontend::nameCalls(const Body &body,
                                                                     std::function<bool(const Path &)> isBlock) {
  std::vector<const CallExpr *> unnamed;
  std::set<std::string> taken;
  Walker walker;
  walker.intoRepeats = false;
  walker.onCall = [&](const CallExpr &call) {
    if (!isBlock(call.callee))
      return;
    if (call.as)
      taken.insert(call.as->text);
    else if (!call.with)
      unnamed.push_back(&call);
  };
  walker.walk(body);
  std::stable_sort(unnamed.begin(), unnamed.end(), [](const CallExpr *a, const CallExpr *b) {
    return a->callee.range.offset < b->callee.range.offset;
  });
  std::map<const CallExpr *, std::string> names;
  std::map<std::string, int> count;
  for (const CallExpr *call : unnamed) {
    const std::string &base = call->callee.last().text;
    std::string name;
    do {
      int n = ++count[base];
      name = n == 1 ? base : base + "_" + std::to_string(n);
    } while (taken.count(name));
    names[call] = name;
  }
  return names;
}
