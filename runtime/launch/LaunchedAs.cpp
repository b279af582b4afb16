#include "runtime/launch/LaunchedAs.h"

#include <charconv>
#include <cstring>

namespace echelon::runtime {

namespace {

constexpr int kMostPort = 65535;

struct Launcher {
  const char *name, *rank, *size, *localRank;
  const char *started; // "start it with mpirun -n", before the number of ranks
};
constexpr Launcher kMpirun = {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                              "mpirun -n "},
                   kSrun = {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "srun -n "},
                   kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK",
                                "torchrun --no-python --nproc-per-node="};

bool readNumber(const char *text, int &number) {
  const char *end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

class Reader {
public:
  Reader(const Environment &environment, const std::string &store, int ranks, LaunchedAs &launched)
      : environment(environment), store(store), ranks(ranks), launched(launched), member(launched.member) {}

  std::string read() {
    const Launcher *launcher = nullptr;
    for (const Launcher *each : {has("TORCHELASTIC_RUN_ID") ? &kTorchrun : &kMpirun, &kMpirun, &kSrun, &kTorchrun})
      if (!launcher && has(each->rank) && has(each->size) && has(each->localRank))
        launcher = each;
    if (!launcher)
      return whatIsLacking();
    launched.launcher = launcher->name;
    std::string wrong = readNumbers(*launcher);
    if (wrong.empty())
      wrong = contradiction(*launcher);
    if (wrong.empty() && member.size != ranks)
      wrong = "this program has " + std::to_string(ranks) + " ranks, but " + launcher->name + " started " +
              std::to_string(member.size) + " (" + shown(launcher->size) + "); start it with " + launcher->started +
              std::to_string(ranks);
    if (!wrong.empty())
      return wrong;
    member.job = job(*launcher);
    return readPlace(*launcher);
  }

private:
  bool has(const char *name) const {
    const char *value = environment(name);
    return value && *value;
  }
  std::string valueOf(const char *name) const { return has(name) ? environment(name) : ""; }
  std::string shown(const char *name) const { return std::string(name) + "=" + valueOf(name); }

  /// Of a launcher some of whose variables are there. An allocation of Slurm has SLURM_NTASKS without being a task.
  std::string whatIsLacking() const {
    for (const Launcher *each : {&kMpirun, &kSrun, &kTorchrun})
      for (const char *set : {each->rank, each->size, each->localRank}) {
        if (!has(set) || (each == &kSrun && set != kSrun.rank))
          continue;
        for (const char *other : {each->rank, each->size, each->localRank})
          if (!has(other))
            return shown(set) + " is set, and " + other + " is not; " + each->name + " sets " + each->rank + ", " +
                   each->size + " and " + each->localRank + " for each rank";
      }
    return "";
  }

  std::string readNumbers(const Launcher &launcher) {
    struct Row {
      const char *name;
      int *number;
    };
    for (const Row &row : {Row{launcher.rank, &member.rank}, Row{launcher.size, &member.size},
                           Row{launcher.localRank, &member.localRank}})
      if (!readNumber(environment(row.name), *row.number) || *row.number < 0)
        return shown(row.name) + " is no whole number from 0; " + launcher.name + " sets it";
    for (const Row &row : {Row{launcher.rank, &member.rank}, Row{launcher.localRank, &member.localRank}})
      if (*row.number >= member.size)
        return shown(row.name) + " is not below " + shown(launcher.size) + "; ranks are counted from 0";
    return "";
  }

  /// Variables of another launcher further out that say something else: nobody knows which is meant.
  std::string contradiction(const Launcher &launcher) const {
    if (&launcher == &kTorchrun || !has(kTorchrun.rank) || !has(kTorchrun.size))
      return "";
    if (valueOf(kTorchrun.rank) == valueOf(launcher.rank) && valueOf(kTorchrun.size) == valueOf(launcher.size))
      return "";
    return shown(launcher.rank) + " and " + shown(launcher.size) + " say another rank than " + shown(kTorchrun.rank) +
           " and " + shown(kTorchrun.size) + "; unset those of the launcher that has not started this rank";
  }

  std::string job(const Launcher &launcher) const {
    if (&launcher == &kTorchrun)
      return valueOf("TORCHELASTIC_RUN_ID") + "/" + valueOf("TORCHELASTIC_RESTART_COUNT");
    return &launcher == &kSrun ? slurmJob() : valueOf("PMIX_NAMESPACE");
  }
  std::string slurmJob() const { return valueOf("SLURM_JOB_ID") + "." + valueOf("SLURM_STEP_ID"); }

  std::string readPlace(const Launcher &launcher) {
    member.atFault = "--store HOST:PORT";
    if (!store.empty())
      return readHostAndPort(store, member.host, member.port) ? "" : "--store takes HOST:PORT, not \"" + store + "\"";
    const bool isSlurm = &launcher == &kSrun;
    if (!has("MASTER_ADDR") && !isSlurm)
      return "MASTER_ADDR is not set: the ranks do not know where to meet; set it to the machine of rank 0 and "
             "MASTER_PORT to a free port of it, or give --store HOST:PORT";
    member.host = valueOf("MASTER_ADDR");
    if (!has("MASTER_ADDR")) {
      const char *list = has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
      member.host = firstHost(valueOf(list));
      if (member.host.empty())
        return (has(list) ? shown(list) + " is no list of machines" : std::string(list) + " is not set") +
               ", and neither is MASTER_ADDR: the ranks do not know where to meet; give --store HOST:PORT";
    }
    member.atFault = has("MASTER_PORT") ? "MASTER_ADDR and MASTER_PORT, or --store HOST:PORT" : member.atFault;
    if (!has("MASTER_PORT") && !isSlurm)
      return shown("MASTER_ADDR") + " is set, and MASTER_PORT is not; set it to a free port of that machine, or give "
                                    "--store HOST:PORT";
    if (!has("MASTER_PORT")) {
      member.port = portOf(slurmJob());
      return "";
    }
    if (!readNumber(environment("MASTER_PORT"), member.port) || member.port < 1 || member.port > kMostPort)
      return shown("MASTER_PORT") + " is no port; ports are numbers from 1 to 65535";
    if (&launcher == &kTorchrun && valueOf("TORCHELASTIC_USE_AGENT_STORE") == "True")
      member.port += member.port < kMostPort ? 1 : -1; // torchrun's agent listens at the other
    return "";
  }

  /// Below those that systems give to outgoing connections.
  static int portOf(const std::string &job) {
    unsigned sum = 0;
    for (const unsigned char c : job)
      sum = sum * 31 + c;
    return 20000 + int(sum % 10000);
  }

  const Environment &environment;
  const std::string &store;
  int ranks;
  LaunchedAs &launched;
  tcp::Member &member;
};

} // namespace

std::string readLaunchedAs(const Environment &environment, const std::string &store, int ranks, LaunchedAs &launched) {
  return Reader(environment, store, ranks, launched).read();
}

bool readHostAndPort(const std::string &text, std::string &host, int &port) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || !readNumber(text.c_str() + colon + 1, port) || port < 1 ||
      port > kMostPort)
    return false;
  host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string::npos) // an address of IPv6 ends where nobody knows
    return false;
  return !host.empty();
}

std::string firstHost(const std::string &list) {
  std::string host;
  for (size_t at = 0; at < list.size() && list[at] != ',';) {
    if (list[at] != '[') {
      host += list[at++];
      continue;
    }
    const size_t close = list.find(']', at), end = list.find_first_of(",-]", at);
    if (close == std::string::npos || end == at + 1)
      return "";
    host += list.substr(at + 1, end - at - 1);
    at = close + 1;
  }
  return host;
}

} // namespace echelon::runtime
