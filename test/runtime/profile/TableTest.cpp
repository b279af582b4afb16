#include "runtime/profile/Table.h"

#include <gtest/gtest.h>

using namespace echelon::runtime;

namespace {
ProfileRow row(const char *op, const char *kind, double seconds, double flops, double bytes, double waited = 0) {
  ProfileRow r;
  r.op = op;
  r.line = "a.ech:3";
  r.kind = kind;
  r.seconds = r.fastest = r.slowest = seconds;
  r.waited = waited;
  r.calls = 2;
  r.flops = flops;
  r.bytes = bytes;
  return r;
}

ProfileSummary summary(int ranks) {
  ProfileSummary s;
  s.limits = {100, 20, 5, 10e-6};
  s.steps = 7;
  s.leftOut = 1;
  s.stepSeconds = 10e-3;
  s.ranks = ranks;
  s.rows = {row("loop h", "loops", 1e-3, 1e6, 10e6), row("gemm a", "products", 6e-3, 300e6, 1e6),
            row("tiny", "loops", 1e-6, 1, 1), row("never", "loops", 0, 1, 1)};
  s.rows.back().calls = 0;
  if (ranks > 1)
    s.rows.push_back(row("all_reduce d", "messages", 2e-3, 0, 2e6, 1e-3));
  ProfileRow rest = row("rest", "other", 1e-3, 0, 0);
  rest.line = "";
  s.rows.push_back(rest);
  return s;
}
} // namespace

// The bound is the longer of arithmetic and traffic; messages are held against copies.
TEST(Table, Bounds) {
  const Limits limits{100, 20, 5, 0};
  EXPECT_DOUBLE_EQ(boundOf(row("", "products", 1, 300e6, 1e6), limits), 3e-3);
  EXPECT_DOUBLE_EQ(boundOf(row("", "loops", 1, 1e6, 10e6), limits), 0.5e-3);
  EXPECT_DOUBLE_EQ(boundOf(row("", "messages", 1, 0, 2e6), limits), 0.4e-3);
  EXPECT_DOUBLE_EQ(boundOf(row("", "data", 1, 0, 0), limits), 0);
}

// By time; rows below a thousandth in one; what did not run not at all; sums by kind; `other` is not accounted for.
TEST(Table, OneRank) {
  EXPECT_EQ(profileText(summary(1)),
            "profile of 7 steps, the first 1 left out: 10.0000 ms a step\n"
            "a rank's limits, measured: 100.0 GFLOP/s of fused multiply-adds, memory 20.0 GB/s, copies 5.0 GB/s\n"
            "   share  ms a step   calls  GFLOP/s     GB/s of limit  line  operation\n"
            " 60.00 %     6.0000       2    50.00        -     50 %  a.ech:3  gemm a\n"
            " 10.00 %     1.0000       2        -    10.00     50 %  a.ech:3  loop h\n"
            " 10.00 %     1.0000       2        -        -        -  rest\n"
            "  0.01 %     0.0010  1 more, each below 0.1 % of the step\n"
            "   share  ms a step of limit  kind\n"
            " 60.00 %     6.0000     50 %  products\n"
            " 10.01 %     1.0010     50 %  loops\n"
            " 10.00 %     1.0000        -  other\n"
            " 80.01 %     8.0010     35 %  all\n"
            "accounted for: 70.01 % of the step; 8 probes took 0.80 % of it");
}

// What a message waited counts as waiting, and its rate is that of the rest.
TEST(Table, TwoRanks) {
  const std::string text = profileText(summary(2));
  EXPECT_NE(text.find(" 20.00 %     2.0000       2        -     2.00     40 %   1.0000    2.0000-2.0000  a.ech:3  "
                      "all_reduce d\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(" 10.00 %     1.0000        -  waiting\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" 10.00 %     1.0000     40 %  messages\n"), std::string::npos) << text;
}

// A message that mostly waited has no rate: others may have moved its bytes meanwhile.
TEST(Table, WaitsForLong) {
  ProfileSummary s = summary(2);
  for (ProfileRow &row : s.rows)
    row.waited = row.kind == "messages" ? 1.9e-3 : 0;
  s.steps = 1;
  const std::string text = profileText(s);
  EXPECT_EQ(text.find("profile of 1 step, the first"), 0u) << text;
  EXPECT_NE(text.find(" 20.00 %     2.0000       2        -        -        -   1.9000    2.0000-2.0000  a.ech:3  "
                      "all_reduce d\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  1.00 %     0.1000        -  messages\n"), std::string::npos) << text;
}

// By what each loses against its prediction; what is near to it in one line, what nobody predicted without one, at the
// end.
TEST(Table, Prediction) {
  ProfileSummary s = summary(1);
  s.predictedBy = "desk, as the spec has it";
  s.predictedStep = 5e-3;
  s.rows[0].predicted = 3e-3;      // the loop is faster than that
  s.rows[1].predicted = 2e-3;      // the product three times as slow
  s.rows[2].predicted = 0.0005e-3; // as good as right
  EXPECT_EQ(predictionText(s), "predicted: 5.0000 ms a step; measured: 10.0000 ms, 2.00 times that; by desk, as the "
                               "spec has it\n"
                               "  lost ms  predicted   measured  ratio  line  operation\n"
                               "   4.0000     2.0000     6.0000   3.00  a.ech:3  gemm a\n"
                               "  -2.0000     3.0000     1.0000   0.33  a.ech:3  loop h\n"
                               "        -          -     1.0000      -  rest\n"
                               "   0.0005     0.0005     0.0010   2.00  1 more, each off by less than 0.1 % of the "
                               "step\n"
                               "   2.0005     5.0005     7.0010   1.40  all that is predicted\n"
                               "not predicted: 1.0000 ms, 10.00 % of the step");
}

// What took no time worth a line and what was predicted to take none have no ratio.
TEST(Table, PredictedToTakeNothing) {
  ProfileSummary s = summary(1);
  s.predictedStep = 10e-3;
  s.rows[0].predicted = 0;
  const std::string text = predictionText(s);
  EXPECT_NE(text.find("   1.0000     0.0000     1.0000      -  a.ech:3  loop h\n"), std::string::npos) << text;
  EXPECT_NE(text.find("        -          -     0.0010      -  1 more, each below 0.1 % of the step\n"),
            std::string::npos)
      << text;
}
