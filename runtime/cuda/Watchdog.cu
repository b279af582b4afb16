#include "runtime/collectives/Collectives.h"
#include "runtime/cuda/Watchdog.h"

#include <chrono>

namespace echelon::cuda {

namespace {
constexpr auto kInterval = std::chrono::milliseconds(100);

double secondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
} // namespace

Watchdog::Watchdog(DeviceTransport &transport, double deadline) : transport(transport), deadline(deadline) {
  cudaGetDevice(&device);
  thread = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard<std::mutex> guard(mutex);
    isOver = true;
  }
  changed.notify_all();
  thread.join();
}

void Watchdog::began(const Awaited &collective, int64_t step, std::function<bool()> isDue,
                     std::function<bool()> isDone) {
  std::string what = collective.kind + " of " + std::to_string(collective.count);
  if (!collective.label.empty())
    what += " (" + collective.label + ")";
  const std::lock_guard<std::mutex> guard(mutex);
  entries.push_back({what + " in step " + std::to_string(step + 1), std::move(isDue), std::move(isDone)});
}

void Watchdog::forget() {
  const std::lock_guard<std::mutex> guard(mutex);
  entries.clear();
}

std::string Watchdog::failure() {
  const std::lock_guard<std::mutex> guard(mutex);
  return found;
}

void Watchdog::watch() {
  cudaSetDevice(device);
  std::unique_lock<std::mutex> guard(mutex);
  while (!changed.wait_for(guard, kInterval, [this] { return isOver; })) {
    look(secondsNow());
    if (found.empty())
      continue;
    transport.abort();
    return;
  }
}

void Watchdog::look(double now) {
  const std::string failure = transport.failure();
  for (auto entry = entries.begin(); found.empty() && entry != entries.end();) {
    if (entry->isDone()) {
      entry = entries.erase(entry);
      continue;
    }
    if (entry->since < 0 && entry->isDue())
      entry->since = now;
    if (entry->since >= 0 && !failure.empty())
      found = entry->what + " ended: " + failure;
    else if (entry->since >= 0 && now - entry->since > deadline)
      found = entry->what + " has waited for other ranks for " + std::to_string(int(deadline)) + " s";
    ++entry;
  }
  if (found.empty())
    found = failure;
  cudaGetLastError(); // an event that is not over leaves one
}

} // namespace echelon::cuda
