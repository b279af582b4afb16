// What happened when, in the first steps that a profile measures, as trace events: the JSON format of Chrome, which
// Perfetto (ui.perfetto.dev) opens.
//
// A rank is a process of the trace, and has these rows:
//
//   0      its steps, and the evaluations and snapshots between them
//   1      what the training loop does on the host
//   2      the operations of the step; on a GPU, of the rank's stream
//   3 + g  the collectives of Program::groups[g]; on a GPU, of the group's stream
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace echelon::runtime {

class Rank;

/// What a span is of.
struct Traced {
  enum Row { Steps, Host, Operations, Groups };
  std::string name, line, kind;
  int row = Operations; // or Groups + the group
};

class Trace {
public:
  static constexpr int64_t kSteps = 10;                 // a run
  static constexpr size_t kMostSpans = size_t(500'000); // a rank: 16 MB

  /// `entries`: what add() is given by number.
  explicit Trace(std::vector<Traced> entries) : all(std::move(entries)) {}

  /// Spans belong to this step (from 1) from here on.
  void beginStep(int64_t newStep) { step = newStep; }
  /// Ticks (Ticks.h). Spans of one row follow one another.
  void add(size_t entry, uint64_t begin, uint64_t end);
  /// A collective on a group, an index into Program::groups, of which no entry tells.
  void addCollective(int group, const char *name, const char *line, uint64_t begin, uint64_t end);
  bool isFull() const { return spans.size() >= kMostSpans; }

  /// How ticks become seconds: `seconds`, counted from a moment that all ranks share, is at `ticks`.
  struct Time {
    uint64_t ticks;
    double seconds, perTick;
  };
  /// Rank 0 writes what all ranks have. Collective. False where a write failed.
  bool write(Rank &rank, FILE *file, const Time &time) const;

private:
  struct Span {
    uint64_t begin, end;
    uint32_t entry;
    int64_t step;
  };
  std::string rowsText(const Rank &rank) const;
  std::string spanText(int rank, const Span &span, const Time &time) const;

  std::vector<Traced> all;
  std::map<std::tuple<int, std::string, std::string>, size_t> collectives; // entries made for them
  std::vector<Span> spans;
  int64_t step = 0;
};

} // namespace echelon::runtime
