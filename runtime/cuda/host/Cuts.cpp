#include "runtime/cuda/host/Cuts.h"
#include "runtime/cuda/host/Streams.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace echelon::cuda::host {

namespace {

// No thread-local storage: kernels' shared memory lies there (Block.cpp).
struct Cuts {
  std::string cut;
  bool lists = false;
  std::map<std::string, bool> sites;
  std::map<std::pair<int, std::string>, int> calls; // by device and kind

  struct Meeting {
    MeetingCut cut;
    std::string place;
    bool isNoted = false, matters = false;
  };
  using Key = std::tuple<const char *, int, const char *, int>;
  std::map<Key, Meeting> meetings;
  Meeting *last = nullptr;
  Key lastKey;
};
Cuts &cuts() {
  static Cuts &all = *new Cuts; // threads may still run when destructors of globals do
  return all;
}
bool isOn = false; // read before each meeting of threads

const char *withoutFolder(const char *file) {
  const char *name = file;
  for (const char *c = file; *c; ++c)
    if (*c == '/')
      name = c + 1;
  return name;
}
std::string described(const LaunchSite &site) {
  return std::string("'") + site.what + "' (" + withoutFolder(site.file) + ":" + std::to_string(site.line) + ")";
}

/// Whether it is cut out; notes that it was reached.
bool isCutAt(const std::string &site, bool matters) {
  if (cuts().lists) {
    bool &known = cuts().sites[site];
    known = known || matters;
  }
  return site == cuts().cut;
}

} // namespace

void cutOut(const std::string &site) {
  const Guard guard;
  cuts().cut = site;
  isOn = true;
}

void listSites() {
  const Guard guard;
  cuts().lists = isOn = true;
}
std::map<std::string, bool> takeSites() {
  const Guard guard;
  for (auto &[key, meeting] : cuts().meetings)
    meeting.isNoted = meeting.matters = false;
  return std::exchange(cuts().sites, {});
}

bool mayCut() { return isOn; }

bool isCut(const char *kind, bool matters) {
  const Guard guard;
  const int device = currentDevice(), number = ++cuts().calls[{device, kind}];
  return isCutAt(std::string(kind) + " " + std::to_string(number) + " of device " + std::to_string(device), matters);
}

std::vector<Range> declared(const LaunchSite &site, std::vector<Range> ranges) {
  if (!isOn)
    return ranges;
  const Guard guard;
  std::vector<Range> left;
  for (size_t i = 0; i < ranges.size(); ++i) {
    Range range = ranges[i];
    if (range.bytes == 0)
      continue;
    const std::string which = std::to_string(i + 1) + " of " + described(site);
    // In place, a kernel declares memory twice.
    const auto saysSo = [&](const Range &other) {
      return &other != &ranges[i] && other.writes == range.writes && other.begin <= range.begin &&
             range.begin + range.bytes <= other.begin + other.bytes;
    };
    const bool matters = std::none_of(ranges.begin(), ranges.end(), saysSo);
    if (range.bytes > 2 && isCutAt("end of " + which, matters))
      range.bytes -= 2;
    if (!isCutAt((range.writes ? "write " : "read ") + which, matters))
      left.push_back(range);
  }
  return left;
}

MeetingCut cutAt(const LaunchSite &launch, const MeetingSite &meeting) {
  Cuts &all = cuts();
  const Cuts::Key key(meeting.file, meeting.line, launch.file, launch.line);
  if (!all.last || key != all.lastKey) {
    const auto [found, isNew] = all.meetings.try_emplace(key);
    all.last = &found->second;
    all.lastKey = key;
    if (isNew)
      all.last->place =
          std::string(withoutFolder(meeting.file)) + ":" + std::to_string(meeting.line) + " in " + described(launch);
    all.last->cut = {!meeting.carries && all.cut == "barrier " + all.last->place,
                     all.cut == "arrival " + all.last->place};
  }
  if (all.lists && !std::exchange(all.last->isNoted, true)) {
    if (!meeting.carries)
      isCutAt("barrier " + all.last->place, false);
    isCutAt("arrival " + all.last->place, true);
  }
  return all.last->cut;
}

bool isMeetingUnknown() { return cuts().lists && cuts().last && !cuts().last->matters; }

void hasMet(bool matters) {
  Cuts::Meeting &meeting = *cuts().last;
  meeting.matters = matters;
  if (const auto site = cuts().sites.find("barrier " + meeting.place); site != cuts().sites.end())
    site->second = site->second || matters;
}

} // namespace echelon::cuda::host
