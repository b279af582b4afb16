// One thing changed in the program of one rank.
#pragma once
#include "test/mutants/messages/Oracle.h"

namespace echelon::test {

inline constexpr const char *kMutations[] = {"drop",     "double", "move",  "swap",    "resize",
                                             "group",    "kind",   "type",  "without", "late",
                                             "exchange", "tag",    "ranks", "place",   "algorithm"};

/// In the program of `rank`; -1: of any. False: there is nothing to change in this way.
bool mutate(Ranks &ranks, const std::string &how, Random &random, int rank = -1);

} // namespace echelon::test
