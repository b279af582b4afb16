// Stochastic gradient descent, with PyTorch's momentum and Nesterov:
//   v = momentum v + g;  w = w - lr v, or with Nesterov w - lr (g + momentum v)
#include "ir/ech/Decimal.h"
#include "passes/update/Rule.h"

using namespace echelon;
using namespace echelon::update;

static Value next(Update &u) {
  ech::Build &b = u.build;
  Value g = u.g;
  if (u.number("momentum") != 0) {
    Value momentum = u.constant(u.number("momentum"));
    Value v = u.keep("momentum", b.add(b.mul(u.kept("momentum"), momentum), g));
    g = u.number("nesterov") != 0 ? b.add(g, b.mul(v, momentum)) : v;
  }
  return b.sub(u.w, b.mul(g, u.lr));
}

static llvm::SmallVector<NamedValue> describe(run::OptimizeOp line) {
  llvm::SmallVector<NamedValue> lines{{"momentum", shortestDecimal(line.number("momentum"))}};
  if (line.number("momentum") != 0)
    lines.push_back({"nesterov", line.number("nesterov") != 0 ? "true" : "false"});
  return lines;
}

constexpr Rule update::kSgd{"sgd", /*decaysApart=*/false, next, describe};
