#include "runtime/program/Turns.h"

#include <algorithm>

using namespace echelon::runtime;

std::vector<Turn> echelon::runtime::one_f_one_b(int64_t stage, int64_t stages, int64_t micro) {
  std::vector<Turn> turns;
  const int64_t ahead = std::min(micro, stages - 1 - stage);
  for (int64_t m = 0; m < ahead; ++m)
    turns.push_back({Turn::Forward, m});
  for (int64_t m = 0; m < micro; ++m) {
    if (m + ahead < micro)
      turns.push_back({Turn::Forward, m + ahead});
    turns.push_back({Turn::Backward, m});
  }
  return turns;
}

std::vector<Turn> echelon::runtime::zero_bubble(int64_t stage, int64_t stages, int64_t micro) {
  std::vector<Turn> turns;
  const int64_t ahead = std::min(micro, stages - stage);
  for (int64_t m = 0; m < ahead; ++m)
    turns.push_back({Turn::Forward, m});
  for (int64_t m = 0; m < micro; ++m) {
    turns.push_back({Turn::Backward, m});
    if (m >= stage)
      turns.push_back({Turn::Weights, m - stage});
    if (m + ahead < micro)
      turns.push_back({Turn::Forward, m + ahead});
  }
  for (int64_t m = std::max<int64_t>(0, micro - stage); m < micro; ++m)
    turns.push_back({Turn::Weights, m});
  return turns;
}
