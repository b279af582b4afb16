// What the host does for a GPU, by the names of the program, on the timeline of a tool: ranges of NVTX, in the domain
// "echelon". Nsight Systems shows them, above the kernels that were launched within. Without a tool a range is a look
// at a pointer.
//
// Of a captured graph the tool sees what is around its launch: ranges within were there when it was captured.
#pragma once
#include <cstdint>
#include <string>

namespace echelon::cuda {

/// From here to the end of the scope, on this thread.
class Range {
public:
  /// The names are copied. Shown as "NAME (PLACE)", where there is a place.
  explicit Range(const char *name, const char *place = "");
  ~Range();
  Range(const Range &) = delete;

  /// Whether a tool is there, for which names are worth making.
  static bool isSeen();
};

/// From begin() to end(), whatever ranges begin and end between.
class LooseRange {
public:
  LooseRange() = default;
  ~LooseRange() { end(); }
  LooseRange(const LooseRange &) = delete;

  /// Ends what was begun before.
  void begin(const std::string &name);
  void end();

private:
  bool isBegun = false;
  uint64_t id = 0; // of the tool
};

} // namespace echelon::cuda
