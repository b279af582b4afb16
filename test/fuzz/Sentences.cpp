#include "EchelonLexer.h" // first: the lexer has a token NAN, <cmath> a macro

#include "test/fuzz/Sentences.h"

#include <CommonTokenStream.h>
#include <atn/ATN.h>
#include <atn/RuleStartState.h>
#include <atn/RuleTransition.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>

using antlr4::atn::ATNState;
using antlr4::atn::Transition;
using P = EchelonParser;

namespace echelon::fuzz {

namespace {

constexpr int kDeep = 12; // a derivation that is this deep, or this long, ends as soon as it can
constexpr size_t kManyWords = 60;
constexpr size_t kNested = 250; // brackets and prefixes that the parser may meet here: it recurses over them

/// The parser's graph and, for each state, the fewest tokens from it to the end of its rule.
struct Graph {
  antlr4::ANTLRInputStream input;
  EchelonLexer lexer{&input};
  antlr4::CommonTokenStream tokens{&lexer};
  P parser{&tokens};
  const antlr4::atn::ATN &atn = parser.getATN();
  std::vector<size_t> fewest;

  Graph() : fewest(atn.states.size(), kUnknown) {
    for (bool changed = true; changed;) {
      changed = false;
      for (ATNState *state : atn.states) {
        size_t best = kUnknown;
        if (state && state->getStateType() == ATNState::RULE_STOP)
          best = 0;
        else if (state)
          for (const Transition *way : state->transitions)
            best = std::min(best, along(way));
        if (state && best < fewest[state->stateNumber]) {
          fewest[state->stateNumber] = best;
          changed = true;
        }
      }
    }
  }
  size_t along(const Transition *way) const {
    if (way->getSerializationType() != Transition::RULE)
      return fewest[way->target->stateNumber] + (way->isEpsilon() ? 0 : 1);
    const auto *rule = static_cast<const antlr4::atn::RuleTransition *>(way);
    return fewest[rule->target->stateNumber] + fewest[rule->followState->stateNumber];
  }
  static constexpr size_t kUnknown = std::numeric_limits<size_t>::max() / 4;
};

const Graph &graph() {
  static const Graph made;
  return made;
}

bool isWordPart(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::vector<std::string> wordsOf(const std::string &text) {
  std::vector<std::string> words;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && isWordPart(text[end]))
      ++end;
    if (end > i && !std::isdigit(static_cast<unsigned char>(text[i])) && end - i < 20)
      words.push_back(text.substr(i, end - i));
    i = std::max(end, i + 1);
  }
  return words;
}

/// Whether the parser can take the text: it is ASCII, so that characters are bytes, and shallow.
bool isPlain(const std::string &text) {
  size_t open = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) >= 0x80)
      return false;
    open += std::strchr("([{^-", text[i]) != nullptr || text.compare(i, 3, "not") == 0;
    open -= open && std::strchr(")]}", text[i]);
  }
  return open < kNested;
}

const char *const kNames[] = {
    "batch",   "relu",      "dot",           "mean",      "sum",       "max",        "softmax", "cross_entropy",
    "argmax",  "nn",        "linear",        "layernorm", "attention", "conv",       "maxpool", "concat",
    "dropout", "where",     "index",         "size",      "cumsum",    "top",        "outer",   "count",
    "clamp",   "normal",    "zeros",         "kaiming",   "adamw",     "sgd",        "muon",    "constant",
    "cosine",  "lr",        "over",          "window",    "stride",    "pad",        "causal",  "scale",
    "mask",    "query",     "key",           "tokens",    "text",      "next_token", "mnist",   "csv",
    "npy",     "synthetic", "sorted_digits", "local",     "ranks",     "dp",         "tp",      "pp",
    "bf16",    "fp32",      "ring",          "tree",      "training",  "_"};
const char *const kNumbers[] = {"0",
                                "1",
                                "2",
                                "3",
                                "4",
                                "8",
                                "0.5",
                                "1e-3",
                                "64",
                                "1e300",
                                "9007199254740992",
                                "9007199254740993",
                                "1000000000",
                                "4294967296",
                                "65536",
                                "1e-320",
                                "7",
                                "0.1",
                                "100",
                                "12"};
const char *const kUnits[] = {"B", "GB", "MiB", "s", "ms", "min", "h", "d"};
const char *const kRates[] = {"GB/s", "Gb/s", "TFLOP/s", "$/h"};
const char *const kQuantities[] = {"80GB", "1ms", "2h", "1e300TB", "400Gb/s", "0B"};
const char *const kStrings[] = {"\"t.txt\"", "\"t.npy\"", "\"t.csv\"", "\"part.ech\"", "\"\"", "\".\"", "\"a\\n\""};

} // namespace

std::string Sentences::spelling(size_t token) {
  const auto oneOf = [&](const auto &list) { return std::string(list[below(std::size(list))]); };
  switch (token) {
  case P::NAME:
    return names.empty() || below(4) == 0 ? oneOf(kNames) : names[below(names.size())];
  case P::NUMBER:
    return oneOf(kNumbers);
  case P::UNIT:
    return oneOf(kUnits);
  case P::RATE:
    return oneOf(kRates);
  case P::QUANTITY:
    return oneOf(kQuantities);
  case P::STRING:
    return oneOf(kStrings);
  default: // written as it is, between quotes; the file's end has no text
    const std::string literal = graph().parser.getVocabulary().getLiteralName(token);
    return literal.size() > 2 ? literal.substr(1, literal.size() - 2) : "";
  }
}

void Sentences::say(size_t token) {
  sentence += spelling(token);
  sentence += token == P::LBRACE || token == P::RBRACE ? '\n' : ' ';
  ++words;
}

void Sentences::walk(size_t rule, int depth) {
  if (rule == P::RuleName && below(16)) { // else one of the language's words
    say(P::NAME);
    return;
  }
  if (rule == P::RuleStatement || rule == P::RuleClause || rule == P::RuleLayoutClause)
    sentence += '\n';
  ATNState *state = graph().atn.ruleToStartState[rule];
  while (state->getStateType() != ATNState::RULE_STOP) {
    const std::vector<Transition *> &ways = state->transitions;
    const Transition *way = ways[below(ways.size())];
    if (depth > kDeep || words > kManyWords || below(3) == 0)
      for (const Transition *other : ways)
        if (graph().along(other) < graph().along(way))
          way = other;
    state = way->target;
    if (way->getSerializationType() == Transition::RULE) {
      const auto *part = static_cast<const antlr4::atn::RuleTransition *>(way);
      walk(part->target->ruleIndex, depth + 1);
      state = part->followState;
    } else if (!way->isEpsilon()) {
      const std::vector<ssize_t> tokens = way->label().toList();
      say(size_t(tokens[below(tokens.size())]));
    }
  }
}

std::string Sentences::derive(size_t rule, const std::string &text) {
  names = wordsOf(text);
  sentence.clear();
  words = 0;
  walk(rule, 0);
  return sentence;
}

std::vector<Sentences::Part> Sentences::partsOf(const std::string &text) {
  std::vector<Part> parts;
  if (!isPlain(text))
    return parts;
  antlr4::ANTLRInputStream input(text);
  EchelonLexer lexer(&input);
  lexer.removeErrorListeners();
  antlr4::CommonTokenStream tokens(&lexer);
  P parser(&tokens);
  parser.removeErrorListeners(); // a text with errors has parts as well
  std::vector<antlr4::tree::ParseTree *> open = {parser.file()};
  while (!open.empty()) {
    auto *rule = dynamic_cast<antlr4::ParserRuleContext *>(open.back());
    open.pop_back();
    if (!rule)
      continue;
    if (rule->start && rule->stop && rule->getRuleIndex() != P::RuleFile) {
      const size_t begin = rule->start->getStartIndex(), end = rule->stop->getStopIndex() + 1;
      if (begin < end && end <= text.size())
        parts.push_back({rule->getRuleIndex(), begin, end});
    }
    open.insert(open.end(), rule->children.begin(), rule->children.end());
  }
  return parts;
}

std::string Sentences::replacement(const Part &part, const std::string &text, const std::string &donor) {
  const std::string &from = below(2) ? donor : text;
  std::vector<Part> same = partsOf(from);
  same.erase(std::remove_if(same.begin(), same.end(), [&](const Part &p) { return p.rule != part.rule; }), same.end());
  if (same.empty() || below(2))
    return derive(part.rule, text);
  const Part &chosen = same[below(same.size())];
  return from.substr(chosen.begin, chosen.end - chosen.begin);
}

std::string Sentences::changeOnce(const std::string &text, const std::string &donor) {
  const std::vector<Part> parts = partsOf(text);
  if (parts.empty() || below(40) == 0)
    return text + "\n" + derive(P::RuleFile, text);
  // A rule first, then one of its places: expressions are many, clauses few.
  const size_t rule = parts[below(parts.size())].rule;
  std::vector<Part> same;
  for (const Part &part : parts)
    if (part.rule == rule || (below(8) == 0 && part.rule == P::RuleStatement) ||
        (below(8) == 0 && part.rule == P::RuleClause))
      same.push_back(part);
  const Part part = same[below(same.size())];
  const std::string before = text.substr(0, part.begin), own = text.substr(part.begin, part.end - part.begin),
                    after = text.substr(part.end);
  switch (below(8)) {
  case 0: // left out
    return before + after;
  case 1: // doubled
    return before + own + "\n" + own + after;
  case 2: // one more beside it
    return before + own + "\n" + derive(part.rule, text) + after;
  case 3: { // exchanged with another
    Part first = part, second = same[below(same.size())];
    if (first.begin > second.begin)
      std::swap(first, second);
    if (first.end > second.begin)
      return before + replacement(part, text, donor) + after;
    return text.substr(0, first.begin) + text.substr(second.begin, second.end - second.begin) +
           text.substr(first.end, second.begin - first.end) + text.substr(first.begin, first.end - first.begin) +
           text.substr(second.end);
  }
  default:
    return before + replacement(part, text, donor) + after;
  }
}

std::string Sentences::mutate(std::string text, const std::string &donor) {
  for (size_t n = 1 + below(3); n > 0; --n)
    text = changeOnce(text, donor);
  return text;
}

} // namespace echelon::fuzz
