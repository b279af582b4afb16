#include "tools/driver/search/Trials.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace echelon {

void Trials::onAll(size_t count, const std::function<void(Trial &, size_t)> &ask,
                   const std::function<void(Trial &, size_t)> &read) {
  while (trials.size() < std::min(most, count))
    add();
  std::atomic<size_t> next{0};
  std::mutex reading;
  auto take = [&](Trial &trial) {
    for (size_t i = next++; i < count; i = next++) {
      ask(trial, i);
      const std::lock_guard<std::mutex> lock(reading);
      read(trial, i);
    }
  };
  std::vector<std::thread> threads;
  for (size_t t = 1; t < trials.size() && t < count; ++t)
    threads.emplace_back([&take, trial = trials[t].get()] { take(*trial); });
  take(*trials.front());
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace echelon
