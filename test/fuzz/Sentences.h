// Random sentences of the language, and changes of a spec that keep to its grammar: walks over the graph that ANTLR
// makes of EchelonParser.g4, so that a rule added there is fuzzed from then on.
#pragma once

#include "EchelonParser.h"

#include <random>
#include <string>
#include <vector>

namespace echelon::fuzz {

class Sentences {
public:
  explicit Sentences(uint64_t seed) : random(seed) {}

  /// The text changed in one place or a few: parts are derived again, taken from elsewhere in it or from `donor`,
  /// doubled, exchanged, left out.
  std::string mutate(std::string text, const std::string &donor);
  /// A text derived from a rule of the parser; its names are mostly those of `text`.
  std::string derive(size_t rule, const std::string &text);

private:
  struct Part { // a subtree: the text that a rule stands for
    size_t rule, begin, end;
  };
  static std::vector<Part> partsOf(const std::string &text);
  std::string changeOnce(const std::string &text, const std::string &donor);
  std::string replacement(const Part &part, const std::string &text, const std::string &donor);
  void walk(size_t rule, int depth);
  void say(size_t token);
  std::string spelling(size_t token);
  size_t below(size_t n) { return n ? random() % n : 0; }

  std::minstd_rand random;
  std::vector<std::string> names; // to choose among
  std::string sentence;           // being derived
  size_t words = 0;               // of it
};

} // namespace echelon::fuzz
