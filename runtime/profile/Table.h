// What a profile says, as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace echelon::runtime {

/// What one rank can do while all do it, as measured when the run began.
struct Limits {
  double peakFlops = 0; // GFLOP/s of float
  double memory = 0;    // GB/s, read and written
  double copies = 0;    // GB/s copied: what a message between ranks of one machine can reach
  double lap = 0;       // seconds that one probe takes
};

/// One operation, or one thing that the training loop does around the step; all numbers are those of one step.
struct ProfileRow {
  std::string op, line, kind;
  double seconds = 0;
  double waited = 0; // of these, while another rank was to come
  double calls = 0;
  double flops = 0, bytes = 0;
  double fastest = 0, slowest = 0; // seconds, over the ranks
  double predicted = -1;           // seconds; negative: nobody says
};

struct ProfileSummary {
  Limits limits;
  int64_t steps = 0, leftOut = 0;
  double stepSeconds = 0; // by the clock on the wall
  int ranks = 1;
  std::vector<ProfileRow> rows;
  std::string predictedBy;  // whose figures rows are held against, for people; empty: there are none
  double predictedStep = 0; // seconds
};

/// Seconds that the machine would take at its limits: the longer of arithmetic and traffic; 0 where there is neither.
double boundOf(const ProfileRow &row, const Limits &limits);

/// The table: rows by time, sums by kind, and how much of the step they account for.
std::string profileText(const ProfileSummary &summary);

/// Rows by what they lose against what was predicted, and those of which nothing was. Of a summary that is predicted.
std::string predictionText(const ProfileSummary &summary);

} // namespace echelon::runtime
