// What a run tells: a progress line on a terminal, plain lines otherwise, JSON lines to a file. Rank 0 alone has one.
#pragma once

#include "runtime/snapshot/Agreement.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace echelon::runtime {

using NamedValues = std::vector<std::pair<std::string, double>>;

/// The shortest decimal that reads back as the same number.
std::string shortest(double value);
/// `text` as a JSON string.
std::string quoted(const std::string &text);

class RunLog {
public:
  /// file: JSON lines, started over, or with `append` continued after firstStep (rows of later steps are dropped, and
  /// where it `evaluatesFirst` those of firstStep's evaluations); empty: none. Ends the run where it cannot be written.
  /// `repaints`: a terminal has one line of progress; otherwise there are lines.
  RunLog(const std::string &file, bool append, int64_t firstStep, int64_t lastStep, int64_t batch, bool evaluatesFirst,
         bool repaints);
  ~RunLog();
  RunLog(const RunLog &) = delete;

  /// A training step is done. `step` counts from 1; values are loss, lr, grad_norm, named losses; `more`: further
  /// members, for the file.
  void step(int64_t step, const NamedValues &values, double seconds, bool isSkipped = false,
            const std::string &more = "");
  /// An evaluation after `step`; name is empty for the unnamed one.
  void evaluation(int64_t step, const std::string &name, const NamedValues &values, double seconds);
  /// Step `from` was not finite: the run goes on from `to`, behind so many samples. Rows after that one go.
  void rollBack(int64_t from, int64_t to, int64_t samples);
  /// The end of a run `until` something, which began or went on after step `from`; cost 0: no price is known.
  void end(int64_t step, const std::string &until, bool reached, int64_t from, double seconds,
           double secondsWithoutEvaluations, double cost);
  /// The lines with which the run begins, each in parts between which it may be broken.
  void begin(const std::vector<std::vector<std::string>> &lines);
  /// Something in which the run differs from the snapshot that it goes on from, for the file alone.
  void change(int64_t step, const Change &change);
  /// A line for the reader.
  void say(const std::string &line);
  /// Text of several lines.
  void show(const std::string &text);
  /// A line on standard error.
  void warn(const std::string &line);
  /// Whether lines could not be written to standard output.
  bool isLost() const { return lost; }

private:
  void flush();
  void write(const std::string &row);
  void progress(int64_t step, const NamedValues &values);

  FILE *json = nullptr;
  std::string path;
  bool terminal, lineOpen = false, lost = false;
  int64_t first, last, batch, printEvery;
  double began, lastShown = 0;
};

} // namespace echelon::runtime
