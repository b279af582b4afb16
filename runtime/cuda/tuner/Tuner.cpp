// The plugin by which NCCL asks which algorithm a collective takes (its interface of tuners, version 5, which NCCL 2.28
// loads where NCCL_TUNER_PLUGIN names this library). Rows say it: ECHELON_TUNER as it stands when a communicator is
// made, `all_reduce 0 65536 tree; all_reduce 65536 - ring simple 8`:
//
//   collective, from and to how many bytes (-: any number), algorithm, then protocol (-: NCCL's choice) and channels
//
// NCCL's table has a time for each (algorithm, protocol), -1 where that is not possible. Of those that a row names NCCL
// takes the best, if one is possible; what no row is about is left to NCCL.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace {

// Numbers of NCCL's (ncclFunc_t, NCCL_ALGO_…, NCCL_PROTO_…), by place.
const char *const kCollectives[] = {"broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce"};
const char *const kAlgorithms[] = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
const char *const kProtocols[] = {"ll", "ll128", "simple"};
constexpr int kSuccess = 0, kInvalidArgument = 4; // ncclResult_t

template <size_t n> int placeOf(const char *const (&names)[n], const std::string &name) {
  return static_cast<int>(std::find(std::begin(names), std::end(names), name) - std::begin(names));
}

struct Row {
  int collective, algorithm, protocol = -1, channels = 0; // -1 and 0: NCCL's choice
  uint64_t from, to;                                      // bytes
};
using Rows = std::vector<Row>;

bool read(const std::string &text, Row &row) {
  std::istringstream words(text);
  std::string collective, to, algorithm, protocol = "-";
  if (!(words >> collective >> row.from >> to >> algorithm))
    return false;
  words >> protocol >> row.channels;
  row.collective = placeOf(kCollectives, collective);
  row.algorithm = placeOf(kAlgorithms, algorithm);
  row.protocol = protocol == "-" ? -1 : placeOf(kProtocols, protocol);
  row.to = to == "-" ? UINT64_MAX : std::strtoull(to.c_str(), nullptr, 10);
  return row.collective < static_cast<int>(std::size(kCollectives)) &&
         row.algorithm < static_cast<int>(std::size(kAlgorithms)) &&
         row.protocol < static_cast<int>(std::size(kProtocols)) && row.from < row.to && row.channels >= 0;
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

int choose(void *context, int collective, size_t bytes, int, float **table, int algorithms, int protocols, int,
           int *channels) {
  for (const Row &row : *static_cast<const Rows *>(context)) {
    if (row.collective != collective || bytes < row.from || bytes >= row.to)
      continue;
    auto *times = reinterpret_cast<float *>(table); // one block, (algorithms, protocols)
    auto isNamed = [&](int a, int p) { return a == row.algorithm && (row.protocol < 0 || p == row.protocol); };
    bool isPossible = false;
    for (int a = 0; a < algorithms; ++a)
      for (int p = 0; p < protocols; ++p)
        isPossible |= isNamed(a, p) && times[a * protocols + p] >= 0;
    if (!isPossible)
      return kSuccess;
    for (int a = 0; a < algorithms; ++a)
      for (int p = 0; p < protocols; ++p)
        if (!isNamed(a, p))
          times[a * protocols + p] = -1;
    if (row.channels > 0)
      *channels = row.channels;
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
