#include "runtime/program/Turns.h"

#include <algorithm>

std::vector<echelon::runtime::Turn> echelon::runtime::one_f_one_b(int64_t stage, int64_t stages, int64_t micro) {
  std::vector<Turn> turns;
  const int64_t ahead = std::min(micro, stages - 1 - stage);
  for (int64_t m = 0; m < ahead; ++m)
    turns.push_back({true, m});
  for (int64_t m = 0; m < micro; ++m) {
    if (m + ahead < micro)
      turns.push_back({true, m + ahead});
    turns.push_back({false, m});
  }
  return turns;
}
