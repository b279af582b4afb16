#include "LinearProgram.h"

#include <gtest/gtest.h>

#include <map>

using namespace echelon::runtime;

namespace {

/// One rank that hands out memory and writes down how much; a rank that is being made asks for nothing else.
class Counting : public Transport {
public:
  std::map<char *, size_t> blocks;
  Counting() {
    worldGroup.ranks = {0};
    worldGroup.index = 0;
  }
  ~Counting() override {
    for (auto [block, bytes] : blocks)
      std::free(block);
  }
  const char *name() const override { return "counting"; }
  bool isDirect() const override { return false; }
  void *allocate(size_t bytes) override {
    char *block = static_cast<char *>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    blocks[block] = bytes;
    return block;
  }
  Group makeGroup(std::vector<int>) override { return worldGroup; }
  Request isend(int, const void *, size_t, int, const char *) override { return unexpected(); }
  Request ireceive(int, void *, size_t, int, const char *) override { return unexpected(); }
  Request startCollective(const Group &, const CollectiveCall &) override { return unexpected(); }
  bool test(Request) override { return unexpected(); }
  void wait(Request) override { unexpected(); }
  void progress() override {}
  void setStep(int64_t) override {}
  void setPlace(Activity, const char *) override {}
  bool stopRequested() const override { return false; }
  [[noreturn]] void stop(const char *) override { std::abort(); }

private:
  static Request unexpected() {
    ADD_FAILURE() << "a rank that is made communicates";
    return 0;
  }
};

// Overflow halves a loss scale, down to 1; 2000 good steps in a row double it, up to 2^24.
TEST(LossScale, FollowsOverflowsAndGoodSteps) {
  Course course;
  course.lossScale = 4;
  auto good = [&](int times) {
    for (int i = 0; i < times; ++i)
      course.adaptLossScale(true, false);
  };
  good(1999);
  EXPECT_EQ(course.lossScale, 4);
  good(1);
  EXPECT_EQ(course.lossScale, 8);
  good(1999);
  course.adaptLossScale(false, true);
  EXPECT_EQ(course.lossScale, 4);
  good(1999);
  course.adaptLossScale(false, false); // what no smaller scale mends ends the row, too
  good(1999);
  EXPECT_EQ(course.lossScale, 4);
  for (int i = 0; i < 3; ++i)
    course.adaptLossScale(false, true);
  EXPECT_EQ(course.lossScale, 1);
  good(30 * 2000);
  EXPECT_EQ(course.lossScale, int64_t(1) << 24);
}

// A rank's memory is the three arenas of its description, to the byte, and slices of them.
TEST(Rank, ItsMemoryIsThePlannedArenas) {
  Program program;
  program.stateBytes = 3350528, program.inputBytes = 20480, program.workBytes = 41603072;
  Counting transport;
  Rank rank(program, transport);
  std::map<size_t, char *> bySize;
  for (auto [block, bytes] : transport.blocks)
    bySize[bytes] = block;
  ASSERT_EQ(transport.blocks.size(), 3u);
  EXPECT_EQ(rank.state<char>(64), bySize.at(3350528) + 64);
  EXPECT_EQ(rank.input<char>(64), bySize.at(20480) + 64);
  EXPECT_EQ(rank.work<char>(64), bySize.at(41603072) + 64);
  EXPECT_EQ(arenaBytes(program), size_t(3350528 + 20480 + 41603072));
}

} // namespace
