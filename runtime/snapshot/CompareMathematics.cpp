// Two models are walked in step, from their losses and next states down to where they part.
#include "runtime/snapshot/CompareMathematics.h"
#include "runtime/snapshot/Mathematics.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace echelon::runtime {

namespace {

using Operand = Mathematics::Operand;
using Node = Mathematics::Node;

struct Side {
  Mathematics model;
  std::vector<uint64_t> all, local, structure;
  std::set<uint64_t> locals; // all of `local`

  void hash() {
    all = hashesOf(model, Counts::All);
    local = hashesOf(model, Counts::Locally);
    structure = hashesOf(model, Counts::Structure);
    locals = {local.begin(), local.end()};
  }
  const Node &node(const Operand &operand) const { return model.nodes[size_t(operand.node)]; }
};

/// A value of each side, and the lines of those that read them.
struct Pair {
  Operand then, now;
  int thenLine, nowLine;
};

class Comparison {
public:
  Comparison(Side &t, Side &n) : then(t), now(n) {}

  std::vector<ModelDifference> compare() {
    roots(then.model.losses, now.model.losses, true);
    roots(then.model.nexts, now.model.nexts, false);
    for (size_t visits = 0; !pairs.empty(); ++visits) {
      if (visits > kMostVisits) { // of two texts that are not of one model, and that no compiler wrote
        found.push_back({0, {ModelDifference::Structure, {"another model"}, {"another model"}, {}, {}, {}}});
        break;
      }
      const Pair pair = pairs.back();
      pairs.pop_back();
      visit(pair);
    }
    std::stable_sort(found.begin(), found.end(), [](const Found &a, const Found &b) { return a.line < b.line; });
    std::vector<ModelDifference> result;
    for (Found &difference : found)
      result.push_back(std::move(difference.difference));
    return result;
  }

private:
  using Roots = std::vector<Mathematics::Root>;
  static constexpr size_t kMostVisits = 1 << 20, kMostTold = 100;

  /// By name; the name of a loss is a label, so that those left are taken by what they compute, then in order.
  void roots(const Roots &a, const Roots &b, bool areLabels) {
    std::vector<const Mathematics::Root *> restThen, restNow;
    for (const Mathematics::Root &root : b)
      restNow.push_back(&root);
    auto take = [&](const Mathematics::Root &root, auto &&fits) {
      const auto place = std::find_if(restNow.begin(), restNow.end(), fits);
      if (place == restNow.end())
        return false;
      pairs.push_back({root.value, (*place)->value, root.line, (*place)->line});
      restNow.erase(place);
      return true;
    };
    for (const Mathematics::Root &root : a)
      if (!take(root, [&](const Mathematics::Root *other) { return other->name == root.name; }))
        restThen.push_back(&root);
    if (areLabels)
      for (const auto by : {Counts::All, Counts::Structure})
        restThen.erase(std::remove_if(restThen.begin(), restThen.end(),
                                      [&](const Mathematics::Root *root) {
                                        return take(*root, [&](const Mathematics::Root *other) {
                                          return hash(then, root->value, by) == hash(now, other->value, by);
                                        });
                                      }),
                       restThen.end());
    ModelDifference missing = {ModelDifference::Structure, {}, {}, {}, {}, {}};
    for (const Mathematics::Root *root : restThen)
      missing.then.push_back(textOf(then, root->line, root->name));
    for (const Mathematics::Root *root : restNow)
      missing.now.push_back(textOf(now, root->line, root->name));
    if (!missing.then.empty() || !missing.now.empty())
      found.push_back({0, missing});
  }

  static std::string textOf(const Side &side, int line, const std::string &otherwise) {
    return line < 0 ? otherwise : side.model.lineOf(line);
  }
  static int lineOf(const Side &side, const Operand &operand, int otherwise) {
    const int own = operand.node < 0 ? -1 : side.node(operand).line;
    return own < 0 ? otherwise : own;
  }
  static uint64_t hash(const Side &side, const Operand &operand, Counts counts) {
    return hashOf(operand,
                  counts == Counts::All       ? side.all
                  : counts == Counts::Locally ? side.local
                                              : side.structure,
                  counts);
  }
  bool isEqual(const Operand &a, const Operand &b, Counts counts) const {
    return hash(then, a, counts) == hash(now, b, counts);
  }

  void visit(const Pair &pair) {
    if (isEqual(pair.then, pair.now, Counts::All) || !seen.insert({pair.then.node, pair.then.result, pair.then.literal,
                                                                   pair.now.node, pair.now.result, pair.now.literal})
                                                          .second)
      return;
    if (pair.then.node < 0 && pair.now.node < 0)
      return number(pair, pair.then.literal, pair.now.literal, "");
    if (vanishes(pair))
      return;
    if (pair.then.node < 0 || pair.now.node < 0)
      return structure(pair);
    const Node &a = then.node(pair.then), &b = now.node(pair.now);
    if (a.op != b.op || a.head != b.head || a.operands.size() != b.operands.size() ||
        a.sites.size() != b.sites.size() || pair.then.result != pair.now.result)
      return structure(pair);
    const int thenLine = lineOf(then, pair.then, pair.thenLine), nowLine = lineOf(now, pair.now, pair.nowLine);
    for (size_t i = 0; i < a.sites.size(); ++i)
      if (a.sites[i] != b.sites[i])
        add({ModelDifference::Site, texts(then, thenLine), texts(now, nowLine), a.sites[i], b.sites[i], a.op}, thenLine,
            nowLine);
    const std::vector<Operand> others = inOrderOf(a, b);
    for (size_t i = 0; i < a.operands.size(); ++i) {
      const Pair inner = {a.operands[i], others[i], thenLine, nowLine};
      if (inner.then.node < 0 && inner.now.node < 0) {
        if (inner.then.literal != inner.now.literal)
          number(inner, inner.then.literal, inner.now.literal, a.op);
      } else {
        pairs.push_back(inner);
      }
    }
    if (a.hasNext && b.hasNext)
      pairs.push_back({a.next, b.next, thenLine, nowLine});
  }

  /// The operands of b, each where the one of a stands that it belongs to.
  std::vector<Operand> inOrderOf(const Node &a, const Node &b) const {
    if (!isCommutative(a.op))
      return b.operands;
    std::vector<Operand> result(a.operands.size()), rest = b.operands;
    std::vector<bool> has(a.operands.size());
    auto take = [&](auto &&fits) {
      for (size_t i = 0; i < result.size(); ++i) {
        if (has[i])
          continue;
        const auto place =
            std::find_if(rest.begin(), rest.end(), [&](const Operand &other) { return fits(a.operands[i], other); });
        if (place == rest.end())
          continue;
        result[i] = *place;
        has[i] = true;
        rest.erase(place);
      }
    };
    take([&](const Operand &x, const Operand &y) { return isEqual(x, y, Counts::All); });
    take([&](const Operand &x, const Operand &y) { return isEqual(x, y, Counts::Structure); });
    take([&](const Operand &x, const Operand &y) {
      return x.node >= 0 && y.node >= 0 && then.node(x).op == now.node(y).op;
    });
    take([&](const Operand &x, const Operand &y) { return (x.node < 0) == (y.node < 0); });
    take([](const Operand &, const Operand &) { return true; });
    return result;
  }

  /// The one operand that is no number, where the other is one under which the operation changes nothing else: a
  /// product with 1 is not there, nor is a dropout of 0.
  struct Scaled {
    Operand value;
    std::string number, neutral;
  };
  static bool isScaled(const Side &side, const Operand &operand, Scaled &scaled) {
    if (operand.node < 0)
      return false;
    const Node &node = side.node(operand);
    static const std::set<std::string> scales = {"mul", "div", "survive"}, shifts = {"add", "sub", "dropout"};
    const bool isScale = scales.count(node.op);
    if (node.operands.size() != 2 || (!isScale && !shifts.count(node.op)))
      return false;
    const int value = node.operands[0].node >= 0 ? 0 : 1;
    if (node.operands[size_t(value)].node < 0 || node.operands[size_t(1 - value)].node >= 0 ||
        (value == 1 && !isCommutative(node.op)))
      return false;
    scaled = {node.operands[size_t(value)], node.operands[size_t(1 - value)].literal, isScale ? "1" : "0"};
    return true;
  }
  static bool isZero(const Operand &operand) { return operand.node < 0 && operand.literal == "0"; }

  /// Where a number is such that its operation is left out on one side: only the number differs.
  bool vanishes(const Pair &pair) {
    Scaled scaled;
    auto op = [](const Side &side, const Operand &operand) { return side.node(operand).op; };
    const int thenLine = lineOf(then, pair.then, pair.thenLine), nowLine = lineOf(now, pair.now, pair.nowLine);
    if (isScaled(then, pair.then, scaled)) {
      // Where the statement is the reader's own it is there on the other side, too.
      const Pair lines = {{}, {}, thenLine, thenLine == pair.thenLine ? pair.nowLine : -1};
      if (isEqual(scaled.value, pair.now, Counts::Structure)) {
        number(lines, scaled.number, scaled.neutral, op(then, pair.then));
        pairs.push_back({scaled.value, pair.now, thenLine, nowLine});
        return true;
      }
      if (isZero(pair.now) && op(then, pair.then) == "mul")
        return number({{}, {}, thenLine, nowLine}, scaled.number, "0", "mul"), true;
    }
    if (isScaled(now, pair.now, scaled)) {
      const Pair lines = {{}, {}, nowLine == pair.nowLine ? pair.thenLine : -1, nowLine};
      if (isEqual(pair.then, scaled.value, Counts::Structure)) {
        number(lines, scaled.neutral, scaled.number, op(now, pair.now));
        pairs.push_back({pair.then, scaled.value, thenLine, nowLine});
        return true;
      }
      if (isZero(pair.then) && op(now, pair.now) == "mul")
        return number({{}, {}, thenLine, nowLine}, "0", scaled.number, "mul"), true;
    }
    return addendVanishes(pair, thenLine, nowLine);
  }
  /// a + 0.1 b beside a: the weight of b is 0.
  bool addendVanishes(const Pair &pair, int thenLine, int nowLine) {
    Scaled scaled;
    if (pair.then.node >= 0 && then.node(pair.then).op == "add" && then.node(pair.then).operands.size() == 2)
      for (const size_t i : {0, 1}) {
        const Operand &kept = then.node(pair.then).operands[i], &other = then.node(pair.then).operands[1 - i];
        if (!isEqual(kept, pair.now, Counts::Structure) || !isScaled(then, other, scaled) ||
            then.node(other).op != "mul")
          continue;
        const int line = then.node(other).line;
        number({{}, {}, line, line == pair.thenLine ? pair.nowLine : -1}, scaled.number, "0", "mul");
        pairs.push_back({kept, pair.now, thenLine, nowLine});
        return true;
      }
    if (pair.now.node >= 0 && now.node(pair.now).op == "add" && now.node(pair.now).operands.size() == 2)
      for (const size_t i : {0, 1}) {
        const Operand &kept = now.node(pair.now).operands[i], &other = now.node(pair.now).operands[1 - i];
        if (!isEqual(pair.then, kept, Counts::Structure) || !isScaled(now, other, scaled) ||
            now.node(other).op != "mul")
          continue;
        const int line = now.node(other).line;
        number({{}, {}, line == pair.nowLine ? pair.thenLine : -1, line}, "0", scaled.number, "mul");
        pairs.push_back({pair.then, kept, thenLine, nowLine});
        return true;
      }
    return false;
  }

  //===- what is told --------------------------------------------------------------------------------------------===//

  /// Enough has been told, and that it is another model is known.
  bool isFull() const {
    return found.size() >= kMostTold && found.back().difference.kind == ModelDifference::Structure;
  }
  void add(const ModelDifference &difference, int thenLine, int nowLine) {
    if (isFull())
      return;
    for (const auto &[line, other] : found)
      if (other.kind == difference.kind && other.then == difference.then && other.now == difference.now &&
          other.from == difference.from && other.to == difference.to)
        return;
    found.push_back({nowLine < 0 ? thenLine : nowLine, difference});
  }
  static std::vector<std::string> texts(const Side &side, int line) {
    return line < 0 ? std::vector<std::string>() : std::vector<std::string>{side.model.lineOf(line)};
  }
  void number(const Pair &pair, const std::string &from, const std::string &to, const std::string &op) {
    static const std::set<std::string> plain = {"mul", "div", "add", "sub", ""};
    add({ModelDifference::Number, texts(then, pair.thenLine), texts(now, pair.nowLine), from, to,
         plain.count(op) ? "" : op},
        pair.thenLine, pair.nowLine);
  }

  /// The lines where what comes in is on both sides, and what comes out on this one alone.
  static std::vector<std::string> linesOf(const Side &side, const Side &other, const Operand &value, int reader) {
    std::set<int> lines;
    std::vector<int> todo, done;
    std::set<int> visited;
    if (value.node >= 0)
      todo.push_back(value.node);
    while (!todo.empty()) {
      const int at = todo.back();
      todo.pop_back();
      if (!visited.insert(at).second || other.locals.count(side.local[size_t(at)]))
        continue;
      const Node &node = side.model.nodes[size_t(at)];
      bool begins = true;
      for (const Operand &operand : node.operands)
        if (operand.node >= 0 && !other.locals.count(side.local[size_t(operand.node)])) {
          begins = false;
          todo.push_back(operand.node);
        }
      if (begins && node.line >= 0)
        lines.insert(node.line);
    }
    if (lines.empty() && reader >= 0)
      lines.insert(reader);
    std::vector<std::string> texts;
    for (const int line : lines)
      texts.push_back(side.model.lineOf(line));
    return texts;
  }
  static std::string opOf(const Side &side, const Operand &operand) {
    return operand.node < 0 ? operand.literal : side.node(operand).op + side.node(operand).head;
  }
  void structure(const Pair &pair) {
    if (isFull())
      return;
    ModelDifference difference = {ModelDifference::Structure,
                                  linesOf(then, now, pair.then, pair.thenLine),
                                  linesOf(now, then, pair.now, pair.nowLine),
                                  {},
                                  {},
                                  {}};
    if (difference.then == difference.now) { // the lines are the same: what they call, or were given, is not
      for (std::string &line : difference.then)
        line += "  (" + opOf(then, pair.then) + ")";
      for (std::string &line : difference.now)
        line += "  (" + opOf(now, pair.now) + ")";
    }
    add(difference, lineOf(then, pair.then, pair.thenLine), lineOf(now, pair.now, pair.nowLine));
  }

  using Seen = std::tuple<int, int, std::string, int, int, std::string>;

  Side &then, &now;
  std::vector<Pair> pairs;
  std::set<Seen> seen;
  struct Found {
    int line; // of the spec, for their order
    ModelDifference difference;
  };
  std::vector<Found> found;
};

} // namespace

std::vector<ModelDifference> compareMathematics(const std::string &thenText, const std::string &nowText) {
  if (thenText == nowText)
    return {};
  Side then, now;
  const std::string wrongNow = readMathematics(nowText, {}, now.model);
  std::string wrongThen = readMathematics(thenText, {}, then.model);
  if (wrongThen.empty() && wrongNow.empty())
    wrongThen = readMathematics(thenText, renamingOf(then.model, now.model), then.model);
  if (!wrongThen.empty() || !wrongNow.empty()) {
    ModelDifference unreadable = {ModelDifference::Structure, {}, {}, {}, {}, {}};
    if (!wrongThen.empty())
      unreadable.then.push_back(wrongThen);
    if (!wrongNow.empty())
      unreadable.now.push_back(wrongNow);
    return {unreadable};
  }
  then.hash();
  now.hash();
  return Comparison(then, now).compare();
}

} // namespace echelon::runtime
