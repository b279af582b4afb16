// The plugin by which NCCL asks which algorithm a collective takes (its interface of tuners, version 5, which NCCL 2.28
// loads where NCCL_TUNER_PLUGIN names this library). Rows say it, as ECHELON_TUNER has them when a communicator is
// made: `all_reduce ring; all_gather ring ll128 8 65536; all_gather ring any 0 0`, the collective, its algorithm, and
// where more is said the protocol, the channels (0: NCCL's own number) and the bytes up to which the row holds (0:
// any). The first row counts that a collective fits. NCCL's table has a time for each (algorithm, protocol), -1 where
// that is not possible. Of those that a row leaves NCCL takes the best, if one is possible; what no row is about is
// left to NCCL, as are algorithms and protocols that are `any`.
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
const char *const kAlgorithms[] = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls"};
const char *const kProtocols[] = {"ll", "ll128", "simple"};
constexpr int kAny = -1;
constexpr int kSuccess = 0, kInvalidArgument = 4; // ncclResult_t

/// kAny of "any"; n: it is none of them.
template <size_t n> int placeOf(const char *const (&names)[n], const std::string &name) {
  return name == "any" ? kAny
                       : static_cast<int>(std::find(std::begin(names), std::end(names), name) - std::begin(names));
}

struct Row {
  int collective, algorithm, protocol = kAny, channels = 0;
  size_t most = 0; // bytes; 0: any number

  bool holdsFor(int ofCollective, size_t bytes) const {
    return collective == ofCollective && (most == 0 || bytes <= most);
  }
  bool leaves(int a, int p) const {
    return (algorithm == kAny || a == algorithm) && (protocol == kAny || p == protocol);
  }
};
using Rows = std::vector<Row>;

bool read(const std::string &text, Row &row) {
  std::istringstream words(text);
  std::string collective, algorithm, protocol, more;
  words >> collective >> algorithm;
  row.collective = placeOf(kCollectives, collective);
  row.algorithm = placeOf(kAlgorithms, algorithm);
  if (words >> protocol) {
    row.protocol = placeOf(kProtocols, protocol);
    if (!(words >> row.channels >> row.most) || row.channels < 0)
      return false;
    words >> more;
  }
  return more.empty() && row.collective >= 0 && row.collective < static_cast<int>(std::size(kCollectives)) &&
         row.algorithm < static_cast<int>(std::size(kAlgorithms)) &&
         row.protocol < static_cast<int>(std::size(kProtocols));
}

int begin(void **context, uint64_t, size_t, size_t, void *, void *, void *) {
  const char *said = std::getenv("ECHELON_TUNER");
  Rows rows;
  std::istringstream text(said ? said : "");
  for (std::string one; std::getline(text, one, ';');)
    if (Row row; one.find_first_not_of(' ') != std::string::npos) {
      if (!read(one, row))
        return kInvalidArgument;
      rows.push_back(row);
    }
  *context = new Rows(std::move(rows));
  return kSuccess;
}

int choose(void *context, int collective, size_t bytes, int, float **table, int algorithms, int protocols, int,
           int *channels) {
  auto *times = reinterpret_cast<float *>(table); // one block, (algorithms, protocols)
  for (const Row &row : *static_cast<const Rows *>(context)) {
    if (!row.holdsFor(collective, bytes))
      continue;
    bool isPossible = false;
    for (int i = 0; i < algorithms * protocols; ++i)
      isPossible |= row.leaves(i / protocols, i % protocols) && times[i] >= 0;
    if (!isPossible)
      return kSuccess;
    for (int i = 0; i < algorithms * protocols; ++i)
      if (!row.leaves(i / protocols, i % protocols))
        times[i] = -1;
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
