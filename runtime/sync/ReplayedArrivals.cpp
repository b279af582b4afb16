#include "runtime/data/File.h"
#include "runtime/launch/Printable.h"
#include "runtime/snapshot/ParseJson.h"
#include "runtime/sync/Arrivals.h"

#include <algorithm>
#include <cstring>

namespace echelon::runtime {

namespace {

class ReplayedArrivals : public Arrivals {
public:
  ReplayedArrivals(std::vector<Update> list, int64_t version) : updates(std::move(list)), first(version) {}

  Update next(int64_t version) override {
    done = version - first + 1;
    return updates[size_t(version - first)];
  }
  int64_t readBy(int64_t worker) const override {
    for (size_t u = size_t(done); u < updates.size(); ++u)
      for (const HandedIn &gradient : updates[u].gradients)
        if (gradient.worker == worker)
          return gradient.read;
    return -1;
  }
  void meet(int64_t) override {}
  Tickets tickets() const override { return {}; } // nothing goes on from it

private:
  std::vector<Update> updates;
  int64_t first, done = 0;
};

constexpr int64_t kMostTickets = int64_t(1) << 40; // times samples of a mini-batch, it stays a number

/// The update that a row tells; what is wrong with it, or an empty string. `free`: by worker, the version from which on
/// it may have read: that of its gradient before.
std::string readRow(const nlohmann::json &row, const SyncPolicy &policy, int64_t version, std::vector<int64_t> &free,
                    Update &update) {
  if (!row.contains("workers") || !row.contains("tickets") || !row.contains("reads"))
    return "does not say which workers' gradients it applied: it is of a run without this sync policy";
  const auto workers = row.at("workers").get<std::vector<int64_t>>(),
             tickets = row.at("tickets").get<std::vector<int64_t>>(),
             reads = row.at("reads").get<std::vector<int64_t>>();
  if (int64_t(workers.size()) != policy.k || tickets.size() != workers.size() || reads.size() != workers.size())
    return "applied " + std::to_string(workers.size()) + " gradients, and this policy applies " +
           std::to_string(policy.k);
  for (size_t i = 0; i < workers.size(); ++i) {
    const bool isNewest = policy.isAsync() || reads[i] == version;
    const std::string which = "has a gradient of worker " + std::to_string(workers[i]) + ", ticket " +
                              std::to_string(tickets[i]) + ", read at " + std::to_string(reads[i]) + ", that ";
    if (workers[i] < 0 || workers[i] >= policy.workers || tickets[i] < 0 || tickets[i] >= kMostTickets ||
        reads[i] > version || !isNewest)
      return which + "this policy with " + std::to_string(policy.workers) + " workers cannot have";
    const bool isSecond = std::count(workers.begin(), workers.begin() + std::ptrdiff_t(i), workers[i]) > 0;
    if (isSecond && !policy.isBatch())
      return which + "is the worker's second in one update, and this policy takes one of each";
    if (policy.staleness >= 0 && version - reads[i] > policy.staleness)
      return which + "is older than staleness = " + std::to_string(policy.staleness) + " allows";
    int64_t &earliest = free[size_t(workers[i])];
    if (reads[i] < earliest)
      return which + "the worker can have read at " + std::to_string(earliest) +
             " or later: replay begins where the run did, or where all workers met";
    earliest = version;
    update.gradients.push_back({workers[i], tickets[i], reads[i]});
  }
  update.time = row.value("time", 0.0);
  return "";
}

} // namespace

std::unique_ptr<Arrivals> replayedArrivals(const SyncPolicy &policy, const std::string &log, int64_t version,
                                           int64_t last, std::string &error) {
  FileBytes bytes;
  error = readFile(log, bytes);
  if (!error.empty())
    return nullptr;
  std::vector<Update> updates;
  std::vector<int64_t> free(size_t(policy.workers), version);
  const char *text = reinterpret_cast<const char *>(bytes.data()), *end = text + bytes.size();
  for (int64_t line = 1; text < end; ++line) {
    const char *stop = static_cast<const char *>(std::memchr(text, '\n', size_t(end - text)));
    stop = stop ? stop : end;
    const std::string where = "\"" + printable(log) + "\", line " + std::to_string(line) + ": ";
    const auto row = parseJson<nlohmann::json>(text, size_t(stop - text));
    text = stop + 1;
    try {
      if (!row.is_object())
        error = where + "is no row of a log";
      else if (row.contains("rolled_back_from"))
        error = where + "the run went back to a snapshot, and such a run is not replayed";
      else if (row.contains("loss") && row.at("step").get<int64_t>() > version &&
               int64_t(updates.size()) < last - version) {
        const int64_t step = row.at("step").get<int64_t>();
        Update update;
        if (step != version + int64_t(updates.size()) + 1)
          error = where + "step " + std::to_string(version + int64_t(updates.size()) + 1) + " is missing";
        else if (const std::string wrong = readRow(row, policy, step - 1, free, update); !wrong.empty())
          error = where + "step " + std::to_string(step) + " " + wrong;
        updates.push_back(std::move(update));
      }
    } catch (const nlohmann::json::exception &) {
      error = where + "is no row of a log";
    }
    if (!error.empty())
      return nullptr;
  }
  if (int64_t(updates.size()) < last - version) {
    error = "\"" + printable(log) + "\" ends after step " + std::to_string(version + int64_t(updates.size())) +
            ", and the run after step " + std::to_string(last) + "; stop it there, with --steps";
    return nullptr;
  }
  return std::make_unique<ReplayedArrivals>(std::move(updates), version);
}

} // namespace echelon::runtime
