// Templates that models by chance are made of, and what fills them.
#pragma once
#include <random>
#include <string>
#include <vector>

namespace echelon::test {

using Random = std::mt19937_64;
inline size_t below(Random &random, size_t n) { return random() % n; }

extern const std::vector<std::string> kPieces, kHeads;

void replaceAll(std::string &text, const std::string &what, const std::string &by);
/// One alternative of each {| … || … |}; without `random` the first.
void choose(std::string &text, Random *random);

} // namespace echelon::test
