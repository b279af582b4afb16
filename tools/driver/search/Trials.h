// Trials of one spec, one a thread.
#pragma once
#include "tools/driver/search/Trial.h"
#include <functional>
#include <memory>

namespace echelon {

class Trials {
public:
  Trials(const CompileOptions &options, size_t most) : options(options), most(most) { add(); }

  Trial &first() { return *trials.front(); }
  /// Each thread has its own trial, and takes what comes next. What `read` does is done by one thread at a time.
  void onAll(size_t count, const std::function<void(Trial &, size_t)> &ask,
             const std::function<void(Trial &, size_t)> &read);

private:
  void add() { trials.push_back(std::make_unique<Trial>(options)); }

  CompileOptions options;
  size_t most;
  std::vector<std::unique_ptr<Trial>> trials;
};

} // namespace echelon
