#include "runtime/snapshot/Mathematics.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

namespace echelon::runtime {

namespace {

constexpr size_t kMostNodes = 1 << 20;
constexpr int kForm = 1;

using Words = std::vector<std::string_view>;

Words wordsOf(std::string_view line) {
  Words words;
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    if (end > at)
      words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

bool readNumber(std::string_view text, int &value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() && value >= 0;
}

std::string renamed(std::string_view name, const std::map<std::string, std::string> &names) {
  const auto found = names.find(std::string(name));
  return found == names.end() ? std::string(name) : found->second;
}

class Reader {
public:
  Reader(const Renaming &r, Mathematics &m) : renaming(r), out(m) {}

  bool line(std::string_view text) {
    const Words words = wordsOf(text);
    if (words.empty())
      return true;
    if (words[0] == "line")
      return sourceLine(text, words);
    if (words[0] == "input" || words[0] == "param" || words[0] == "state")
      return tensor(words);
    if (words[0] == "loss" || words[0] == "next")
      return root(words);
    if (words[0] == "carry")
      return carry(words);
    return words[0][0] == '%' && node(words);
  }

private:
  bool sourceLine(std::string_view text, const Words &words) {
    int index = 0;
    if (words.size() < 3 || !readNumber(words[1], index) || size_t(index) != out.lines.size())
      return false;
    out.lines.emplace_back(text.substr(size_t(words[1].data() + words[1].size() + 1 - text.data())));
    return true;
  }
  bool tensor(const Words &words) {
    if (words.size() < 4 || words[2] != "(" || words[words.size() - 2] != ")")
      return false;
    Mathematics::Tensor tensor = {std::string(words[0]), std::string(words[1]), {}};
    if (tensor.kind == "input")
      tensor.name = renamed(words[1], renaming.inputs);
    std::string storage;
    for (size_t i = 3; i + 2 < words.size(); ++i) {
      if (words[i][0] != '\'')
        return false;
      tensor.axes.push_back(renamedAxis(words[i], renaming));
      storage += " " + tensor.axes.back();
    }
    storageOf[tensor.name] = storage;
    out.tensors.push_back(std::move(tensor));
    return true;
  }
  bool operand(std::string_view word, Mathematics::Operand &operand) {
    if (word.size() > 1 && word[0] == '#') {
      operand.literal = word.substr(1);
      return true;
    }
    const size_t dot = std::min(word.find('.'), word.size());
    return word.size() > 1 && word[0] == '%' && readNumber(word.substr(1, dot - 1), operand.node) &&
           size_t(operand.node) < out.nodes.size() &&
           (dot == word.size() || readNumber(word.substr(dot + 1), operand.result));
  }
  bool place(std::string_view word, int &line) {
    return word[0] == '@' && readNumber(word.substr(1), line) && size_t(line) < out.lines.size();
  }
  bool root(const Words &words) {
    Mathematics::Root root;
    root.name = words.size() > 1 ? words[1] : "";
    if (words.size() < 3 || words.size() > 4 || !operand(words[2], root.value) ||
        (words.size() == 4 && !place(words[3], root.line)))
      return false;
    (words[0] == "loss" ? out.losses : out.nexts).push_back(std::move(root));
    return true;
  }
  bool carry(const Words &words) {
    Mathematics::Operand carried, next;
    if (words.size() != 3 || !operand(words[1], carried) || carried.node < 0 || !operand(words[2], next))
      return false;
    Mathematics::Node &node = out.nodes[size_t(carried.node)];
    if (node.op != "carried")
      return false;
    node.hasNext = true;
    node.next = next;
    return true;
  }
  bool node(const Words &words) {
    int number = 0;
    if (words.size() < 3 || words[1] != "=" || !readNumber(words[0].substr(1), number) ||
        size_t(number) != out.nodes.size() || out.nodes.size() >= kMostNodes)
      return false;
    Mathematics::Node node;
    node.op = words[2];
    for (size_t i = 3; i < words.size(); ++i) {
      const std::string_view word = words[i];
      if (word[0] == '%' || word[0] == '#') {
        node.operands.emplace_back();
        if (!operand(word, node.operands.back()))
          return false;
      } else if (word[0] == '~') {
        node.sites.emplace_back(word.substr(1));
      } else if (word[0] == '@') {
        if (!place(word, node.line))
          return false;
      } else if (word == "[") {
        std::vector<std::string> axes;
        for (++i; i < words.size() && words[i] != "]"; ++i) {
          if (words[i][0] != '\'')
            return false;
          axes.push_back(renamedAxis(words[i], renaming));
        }
        if (i == words.size())
          return false;
        std::sort(axes.begin(), axes.end());
        node.head += " [";
        for (const std::string &axis : axes)
          node.head += " " + axis;
        node.head += " ]";
      } else {
        node.head += " " + (word[0] == '\'' ? renamedAxis(word, renaming) : std::string(word));
      }
    }
    if (node.op == "value" && words.size() > 3) { // what is read: by name, as it lies in memory
      const std::string name = renamed(words[3], renaming.inputs);
      const auto storage = storageOf.find(name);
      node.head = " " + name + (storage == storageOf.end() ? "" : storage->second);
    }
    if ((node.op == "gt" || node.op == "ge") && node.operands.size() == 2) {
      std::swap(node.operands[0], node.operands[1]);
      node.op = node.op == "gt" ? "lt" : "le";
    }
    if (node.op == "carried" && (node.operands.empty()))
      return false;
    out.nodes.push_back(std::move(node));
    return true;
  }

  /// 'feat=5
  std::string renamedAxis(std::string_view word, const Renaming &) {
    const size_t end = std::min(word.find('='), word.size());
    const std::string name = renamed(word.substr(1, end - 1), renaming.axes);
    if (known.insert(name).second)
      out.axes.push_back(name);
    return "'" + name + std::string(word.substr(end));
  }

  const Renaming &renaming;
  Mathematics &out;
  std::set<std::string> known; // axes
  std::map<std::string, std::string> storageOf;
};

uint64_t mix(uint64_t a, uint64_t b) { // splitmix64's finalizer
  uint64_t x = a * 0x9E3779B97F4A7C15u ^ b;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
uint64_t hashOf(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u; // FNV-1a
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return mix(hash, text.size());
}

} // namespace

/// Sums of sums are one sum, where the inner is read nowhere else; products, maxima and minima alike.
static void flatten(Mathematics &mathematics) {
  static const std::set<std::string> associative = {"add", "mul", "max", "min", "and", "or"};
  constexpr size_t most = 64;
  std::vector<int> uses(mathematics.nodes.size());
  auto use = [&](const Mathematics::Operand &operand) {
    if (operand.node >= 0)
      ++uses[size_t(operand.node)];
  };
  for (const Mathematics::Node &node : mathematics.nodes) {
    for (const Mathematics::Operand &operand : node.operands)
      use(operand);
    use(node.next);
  }
  for (const auto *roots : {&mathematics.losses, &mathematics.nexts})
    for (const Mathematics::Root &root : *roots)
      use(root.value);
  for (Mathematics::Node &node : mathematics.nodes) {
    if (!associative.count(node.op))
      continue;
    std::vector<Mathematics::Operand> flat;
    for (const Mathematics::Operand &operand : node.operands) {
      const Mathematics::Node *inner = operand.node < 0 ? nullptr : &mathematics.nodes[size_t(operand.node)];
      if (inner && inner->op == node.op && uses[size_t(operand.node)] == 1 && inner->operands.size() < most)
        flat.insert(flat.end(), inner->operands.begin(), inner->operands.end());
      else
        flat.push_back(operand);
    }
    node.operands = std::move(flat);
  }
}

bool isCommutative(const std::string &op) {
  static const std::set<std::string> ops = {"add", "mul", "max", "min", "eq", "ne", "and", "or", "dot"};
  return ops.count(op) > 0;
}

std::string readMathematics(const std::string &text, const Renaming &renaming, Mathematics &mathematics) {
  mathematics = Mathematics();
  Reader reader(renaming, mathematics);
  for (size_t at = 0, number = 1; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line(text.data() + at, end - at);
    if (number == 1) {
      const Words words = wordsOf(line);
      int form = 0;
      if (words.size() != 2 || words[0] != "mathematics" || !readNumber(words[1], form))
        return "it does not say what is computed";
      if (form != kForm)
        return "it says what is computed in form " + std::to_string(form) + ", which this program does not read";
    } else if (!reader.line(line)) {
      return "what it says of the model cannot be read from line " + std::to_string(number) + " on";
    }
    at = end + 1;
  }
  flatten(mathematics);
  return text.empty() ? "it does not say what is computed" : "";
}

Renaming renamingOf(const Mathematics &then, const Mathematics &now) {
  Renaming result;
  auto namesOf = [](const Mathematics &m) {
    std::vector<std::string> names;
    for (const Mathematics::Tensor &tensor : m.tensors)
      if (tensor.kind == "input")
        names.push_back(tensor.name);
    return names;
  };
  std::vector<std::string> inputsThen = namesOf(then), inputsNow = namesOf(now);
  const std::set<std::string> setThen(inputsThen.begin(), inputsThen.end()), setNow(inputsNow.begin(), inputsNow.end());
  if (setThen != setNow && inputsThen.size() == inputsNow.size())
    for (size_t i = 0; i < inputsThen.size(); ++i)
      if (inputsThen[i] != inputsNow[i])
        result.inputs[inputsThen[i]] = inputsNow[i];
  std::map<std::string, std::string> back;
  auto nameOf = [](const std::string &axis) { return axis.substr(1, axis.find('=') - 1); };
  std::map<std::pair<std::string, std::string>, const Mathematics::Tensor *> byName;
  for (const Mathematics::Tensor &tensor : now.tensors)
    byName[{tensor.kind, tensor.name}] = &tensor;
  for (const Mathematics::Tensor &a : then.tensors) {
    const auto found = byName.find({a.kind, a.kind == "input" ? renamed(a.name, result.inputs) : a.name});
    if (found == byName.end() || found->second->axes.size() != a.axes.size())
      continue;
    for (size_t i = 0; i < a.axes.size(); ++i) {
      const std::string from = nameOf(a.axes[i]), to = nameOf(found->second->axes[i]);
      if (result.axes.emplace(from, to).first->second != to || back.emplace(to, from).first->second != from) {
        result.axes.clear(); // no renaming: another tensor
        return result;
      }
    }
  }
  // Axes that no tensor has, as what attention looks back over: those of other names, as they come.
  auto othersOf = [](const Mathematics &m, const Mathematics &other, const std::map<std::string, std::string> &named) {
    const std::set<std::string> there(other.axes.begin(), other.axes.end());
    std::vector<std::string> others;
    for (const std::string &axis : m.axes)
      if (!named.count(axis) && !there.count(axis))
        others.push_back(axis);
    return others;
  };
  const std::vector<std::string> axesThen = othersOf(then, now, result.axes), axesNow = othersOf(now, then, back);
  if (axesThen.size() == axesNow.size())
    for (size_t i = 0; i < axesThen.size(); ++i)
      result.axes.emplace(axesThen[i], axesNow[i]);
  return result;
}

/// Of an operation that gives 0.
static constexpr uint64_t kZero = 0;

uint64_t hashOf(const Mathematics::Operand &operand, const std::vector<uint64_t> &hashes, Counts counts) {
  if (operand.node < 0 && counts == Counts::Structure)
    return 1;
  if (operand.node < 0 && operand.literal != "0")
    return mix(2, hashOf(operand.literal));
  if (operand.node < 0 || hashes[size_t(operand.node)] == kZero)
    return kZero;
  return mix(hashes[size_t(operand.node)], uint64_t(operand.result));
}

/// Of a sum or a product that a 0 makes another operation: nothing else of the product, or the sum's one other operand.
static std::optional<uint64_t> hashWithZeros(const Mathematics &mathematics, const Mathematics::Node &node,
                                             const std::vector<uint64_t> &hashes, Counts counts) {
  if (counts == Counts::Structure || (node.op != "mul" && node.op != "add"))
    return std::nullopt;
  auto isZero = [&](const Mathematics::Operand &operand) { return hashOf(operand, hashes, counts) == kZero; };
  const auto zeros = size_t(std::count_if(node.operands.begin(), node.operands.end(), isZero));
  if (node.op == "mul")
    return zeros ? std::optional(kZero) : std::nullopt;
  if (zeros == node.operands.size())
    return kZero;
  if (zeros + 1 != node.operands.size())
    return std::nullopt;
  const auto other = std::find_if_not(node.operands.begin(), node.operands.end(), isZero);
  if (other->node < 0 || other->result != 0)
    return std::nullopt;
  const std::string &head = mathematics.nodes[size_t(other->node)].head; // ends with the axes of what it gives
  const bool hasSameAxes =
      head.size() >= node.head.size() && head.compare(head.size() - node.head.size(), node.head.size(), node.head) == 0;
  return hasSameAxes ? std::optional(hashes[size_t(other->node)]) : std::nullopt;
}

std::vector<uint64_t> hashesOf(const Mathematics &mathematics, Counts counts) {
  // What a carried value becomes is after it: its hash is that of the round before. A difference may come through one
  // carried value a round.
  size_t carried = 0;
  for (const Mathematics::Node &node : mathematics.nodes)
    carried += node.hasNext;
  const size_t rounds = counts == Counts::Locally ? 1 : 1 + std::min<size_t>(carried, 32);
  std::vector<uint64_t> hashes(mathematics.nodes.size()), before;
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < hashes.size(); ++i) {
      const Mathematics::Node &node = mathematics.nodes[i];
      if (const auto known = hashWithZeros(mathematics, node, hashes, counts)) {
        hashes[i] = *known;
        continue;
      }
      uint64_t hash = mix(hashOf(node.op), hashOf(node.head));
      if (counts != Counts::Structure)
        for (const std::string &site : node.sites)
          hash = mix(hash, hashOf(site));
      std::vector<uint64_t> operands;
      for (const Mathematics::Operand &operand : node.operands)
        operands.push_back(hashOf(operand, hashes, counts));
      if (isCommutative(node.op))
        std::sort(operands.begin(), operands.end());
      if (counts != Counts::Structure && node.op == "add")
        operands.erase(std::remove(operands.begin(), operands.end(), kZero), operands.end());
      for (const uint64_t operand : operands)
        hash = mix(hash, operand);
      if (round > 0 && node.hasNext)
        hash = mix(hash, hashOf(node.next, before, counts));
      hashes[i] = hash;
    }
    before = hashes;
  }
  return hashes;
}

} // namespace echelon::runtime
