#include "runtime/program/Inputs.h"
#include "../collectives/Ranks.h"
#include "runtime/data/Transforms.h"

using namespace echelon::runtime;

namespace {

constexpr int64_t kBatch = 6, kRows = 4, kColumns = 3;

/// Sample s of [row = 4, column = 3] holds 100 s + 10 row + column.
struct Counting : DataSource {
  Counting() { outputShapes = {{{kRows, kColumns}, ElementType::Float32}}; }
  int64_t size(Part) const override { return 100; }
  void read(Part, int64_t sample, int, double *values) const override {
    for (int64_t i = 0; i < kRows * kColumns; ++i)
      values[i] = double(100 * sample + 10 * (i / kColumns) + i % kColumns);
  }
};

double valueOf(int64_t sample, int64_t row, int64_t column) { return double(100 * sample + 10 * row + column); }

/// Loads one place on every rank of a mesh dp = 2, tp = 2 and hands each rank's coordinates and values to `check`.
template <typename Check> void load(const Layout &layout, const std::vector<Renamed> &renamed, Check check) {
  Program program;
  program.mesh = {{"dp", 2}, {"tp", 2}};
  program.batch = kBatch;
  program.batchAxis = "batch";
  program.inputBytes = 4 * kBatch * kRows * kColumns;
  program.inputs = {{"x",
                     0,
                     {"batch", "row", "column"},
                     {kBatch, kRows, kColumns},
                     ElementType::Float32,
                     0,
                     {{layout, ElementType::Float32, 0, renamed}}}};
  test::onRanks("threads", 4, [&](Transport &t) {
    Rank rank(program, t);
    DataStream stream(std::make_unique<Counting>(), std::make_unique<Transforms>(), 1);
    InputLoader(rank).load(stream, Reading::HeldOut, 0, kBatch);
    check(rank.coordinate(0), rank.coordinate(1), rank.input<float>(0));
  });
}

void same(float is, double wanted, const std::string &where) {
  if (is != float(wanted))
    throw where + ": " + std::to_string(is) + " instead of " + std::to_string(wanted);
}

} // namespace

// Micro batches are (micro, batch); rows in two parts, the slower one split, stored after the columns.
TEST(Inputs, AxesInPartsAndInAnotherOrder) {
  Layout layout = {{{"micro", 3, {}}, {"batch", 2, {0}}, {"low", 2, {}}, {"column", 3, {}}, {"high", 2, {1}}}, {}};
  load(layout, {{{"batch"}, {"micro", "batch"}}, {{"row"}, {"high", "low"}}}, [](int dp, int tp, const float *x) {
    for (int64_t micro = 0; micro < 3; ++micro)
      for (int64_t low = 0; low < 2; ++low)
        for (int64_t column = 0; column < 3; ++column)
          same(x[(micro * 2 + low) * 3 + column], valueOf(2 * micro + dp, 2 * tp + low, column), "parts");
  });
}

// (column, row) -> pixel is not their order in the sample; padding of the split is left alone.
TEST(Inputs, AxesMergedAgainstTheirOrder) {
  Layout layout = {{{"batch", 6, {0}}, {"pixel", 12, {1}}}, {}};
  load(layout, {{{"column", "row"}, {"pixel"}}}, [](int dp, int tp, const float *x) {
    for (int64_t sample = 0; sample < 3; ++sample)
      for (int64_t i = 0; i < 6; ++i)
        same(x[sample * 6 + i], valueOf(3 * dp + sample, (6 * tp + i) % 4, (6 * tp + i) / 4), "merged");
  });
}

// Samples and rows as one axis: a rank holds parts of samples.
TEST(Inputs, SamplesMergedWithAnAxis) {
  Layout layout = {{{"place", 24, {0, 1}}, {"column", 3, {}}}, {}};
  load(layout, {{{"batch", "row"}, {"place"}}}, [](int dp, int tp, const float *x) {
    for (int64_t i = 0; i < 18; ++i) {
      const int64_t place = 12 * dp + 6 * tp + i / 3;
      same(x[i], valueOf(place / 4, place % 4, i % 3), "samples");
    }
  });
}
