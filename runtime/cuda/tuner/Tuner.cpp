// The plugin by which NCCL asks which algorithm a collective takes (its interface of tuners, version 5, which NCCL 2.28
// loads where NCCL_TUNER_PLUGIN names this library). Rows say it, as ECHELON_TUNER has them when a communicator is
// made: `all_reduce ring; all_gather ring`. NCCL's table has a time for each (algorithm, protocol), -1 where that is
// not possible. Of those of the algorithm that a row names NCCL takes the best, if one is possible; what no row is
// about is left to NCCL.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace {

// Numbers of NCCL's (ncclFunc_t, NCCL_ALGO_…), by place.
const char *const kCollectives[] = {"broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce"};
const char *const kAlgorithms[] = {"tree", "ring"};
constexpr int kSuccess = 0, kInvalidArgument = 4; // ncclResult_t

template <size_t n> int placeOf(const char *const (&names)[n], const std::string &name) {
  return static_cast<int>(std::find(std::begin(names), std::end(names), name) - std::begin(names));
}

struct Row {
  int collective, algorithm;
};
using Rows = std::vector<Row>;

bool read(const std::string &text, Row &row) {
  std::istringstream words(text);
  std::string collective, algorithm, more;
  words >> collective >> algorithm;
  row = {placeOf(kCollectives, collective), placeOf(kAlgorithms, algorithm)};
  return !(words >> more) && row.collective < static_cast<int>(std::size(kCollectives)) &&
         row.algorithm < static_cast<int>(std::size(kAlgorithms));
}

int begin(void **context, uint64_t, size_t, size_t, void *, void *, void *) {
  const char *said = std::getenv("ECHELON_TUNER");
  Rows rows;
  std::istringstream text(said ? said : "");
  for (std::string one; std::getline(text, one, ';');)
    if (Row row{}; one.find_first_not_of(' ') != std::string::npos) {
      if (!read(one, row))
        return kInvalidArgument;
      rows.push_back(row);
    }
  *context = new Rows(std::move(rows));
  return kSuccess;
}

int choose(void *context, int collective, size_t, int, float **table, int algorithms, int protocols, int, int *) {
  auto *times = reinterpret_cast<float *>(table); // one block, (algorithms, protocols)
  for (const Row &row : *static_cast<const Rows *>(context)) {
    if (row.collective != collective || row.algorithm >= algorithms)
      continue;
    const float *named = times + row.algorithm * protocols;
    if (std::none_of(named, named + protocols, [](float time) { return time >= 0; }))
      return kSuccess;
    for (int a = 0; a < algorithms; ++a)
      if (a != row.algorithm)
        std::fill_n(times + a * protocols, protocols, -1.0f);
    return kSuccess;
  }
  return kSuccess;
}

int end(void *context) {
  delete static_cast<Rows *>(context);
  return kSuccess;
}

} // namespace

extern "C" __attribute__((visibility("default"))) const struct {
  const char *name;
  decltype(&begin) init;
  decltype(&choose) getCollInfo;
  decltype(&end) finalize;
} ncclTunerPlugin_v5 = {"echelon", begin, choose, end};
