// What is refused of ranks whose programs differ, with its text; what compiled programs have not yet, they have here.
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "passes/prove/Alone.h"
#include "passes/prove/Meeting.h"
#include "passes/prove/Parties.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace echelon;
using namespace echelon::prove;

namespace {
constexpr const char *kModule = R"(
  rt.function @f {
    %x = rt.alloc work : !rt.buffer<[n=1], f32>
    rt.report 0 "norm" "grad_norm", %x : !rt.buffer<[n=1], f32> loc("mlp.ech":40:1)
    rt.collective "all_reduce" %x, %x count 1 "Sum" over [0] ranks 2 "dp" with "ring" why "" : !rt.buffer<[n=1], f32>, !rt.buffer<[n=1], f32> loc("mlp.ech":33:1)
  })";

/// The programs of some ranks, written one instruction at a time.
class ProveTest : public testing::Test {
protected:
  ProveTest() {
    context.loadDialect<rt::RtDialect>();
    module = parseSourceString<ModuleOp>(kModule, &context);
    module->walk([&](rt::CollectiveOp op) { message = op; });
    module->walk([&](rt::ReportOp op) { report = op; });
  }

  int group(SmallVector<int, 4> members) { return channels.find({0, next++}, {false, std::move(members)}); }
  int edge(int from, int to) { return channels.find({1, next++}, {true, {from, to}}); }

  int begin(int rank, int channel, StringRef axes, StringRef kind = "all_reduce", int64_t count = 64) {
    Program &program = of(rank);
    Start start;
    start.is.side = kind == "send"      ? rt::Message::Side::Sender
                    : kind == "receive" ? rt::Message::Side::Receiver
                                        : rt::Message::Side::Member;
    start.is.kind = kind;
    start.is.axes = axes;
    start.is.element = Float32Type::get(&context);
    start.is.count = count;
    start.is.reduction = kind == "all_reduce" ? "Sum" : "";
    start.channel = channel;
    start.op = message;
    program.starts.push_back(start);
    const int index = static_cast<int>(program.starts.size()) - 1;
    program.instructions.push_back({Instruction::Begin, message, index, {}, {}});
    return index;
  }
  void wait(int rank, int start) { of(rank).instructions.push_back({Instruction::Wait, message, start, {}, {}}); }
  void whole(int rank, int channel, StringRef axes, StringRef kind = "all_reduce", int64_t count = 64) {
    wait(rank, begin(rank, channel, axes, kind, count));
  }
  void leave(int rank) { of(rank).instructions.push_back({Instruction::Leave, report, -1, {}, {}}); }
  Program &of(int rank) {
    for (int r = static_cast<int>(programs.size()); r <= rank; ++r)
      programs.emplace_back().rank = r;
    return programs[static_cast<size_t>(rank)];
  }

  std::string together() const { return textOf(checkTogether(programs, channels)); }
  std::string alone(int rank) const { return textOf(checkAlone(programs[static_cast<size_t>(rank)])); }
  static std::string textOf(const Verdict &verdict) { return verdict ? verdict->text : "proven"; }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Operation *message = nullptr, *report = nullptr;
  std::vector<Program> programs;
  Channels channels;
  int64_t next = 0;
};

TEST_F(ProveTest, MessagesThatAreEqualMeet) {
  const int dp = group({0, 1});
  for (int rank : {0, 1})
    whole(rank, dp, "dp");
  EXPECT_EQ(together(), "proven");
}

TEST_F(ProveTest, KindsDiffer) {
  const int dp = group({0, 2});
  whole(0, dp, "dp");
  whole(2, dp, "dp", "all_gather");
  EXPECT_EQ(together(),
            "ranks 0 and 2 differ: 0 has all_reduce over dp of 64 f32, Sum (mlp.ech:33), 2 has all_gather over "
            "dp of 64 f32 (mlp.ech:33)");
}

TEST_F(ProveTest, CountsDiffer) {
  const int pp = edge(0, 1);
  whole(0, pp, "pp", "send", 64);
  whole(1, pp, "pp", "receive", 63);
  EXPECT_EQ(together(),
            "ranks 0 and 1 differ: 0 has send over pp of 64 f32, tag 0 (mlp.ech:33), 1 has receive over pp of "
            "63 f32, tag 0 (mlp.ech:33)");
}

TEST_F(ProveTest, ValuesDiffer) {
  const int dp = group({0, 1});
  for (int rank : {0, 1})
    for (int64_t layer : {0, 1}) {
      const int start = begin(rank, dp, "dp");
      of(rank).starts.back().label = {rank ? 1 - layer : layer};
      wait(rank, start);
    }
  EXPECT_EQ(together(),
            "ranks 0 and 1 differ: 0 has all_reduce over dp of 64 f32, Sum (mlp.ech:33), 1 has all_reduce over "
            "dp of 64 f32, Sum (mlp.ech:33)");
}

TEST_F(ProveTest, NobodyComes) {
  const int pp = edge(0, 1);
  whole(0, pp, "pp", "send");
  of(1);
  EXPECT_EQ(together(),
            "no rank goes on: rank 0 waits for send over pp of 64 f32, tag 0 (mlp.ech:33), to which rank 1 does "
            "not come; rank 1 has ended");
}

TEST_F(ProveTest, RanksWaitForEachOther) {
  const int there = edge(0, 1), back = edge(1, 0);
  whole(0, back, "pp", "receive");
  whole(0, there, "pp", "send");
  whole(1, there, "pp", "receive");
  whole(1, back, "pp", "send");
  EXPECT_EQ(together(),
            "no rank goes on: rank 0 waits for receive over pp of 64 f32, tag 0 (mlp.ech:33), to which rank 1 "
            "does not come; rank 1 waits for receive over pp of 64 f32, tag 0 (mlp.ech:33), to which rank 0 "
            "does not come");
}

// An edge and direction is a stream of its own: what is received may be asked for before something is sent.
TEST_F(ProveTest, ReceivesMayBeStartedFirst) {
  const int there = edge(0, 1), back = edge(1, 0);
  for (int rank : {0, 1}) {
    const int received = begin(rank, rank ? there : back, "pp", "receive");
    whole(rank, rank ? back : there, "pp", "send");
    wait(rank, received);
  }
  EXPECT_EQ(together(), "proven");
}

// NCCL launches what is in two groups in the order of calls.
TEST_F(ProveTest, TwoGroupsInTwoOrders) {
  const int dp = group({0, 1}), tp = group({0, 1});
  for (int rank : {0, 1}) {
    const int first = begin(rank, rank ? tp : dp, rank ? "tp" : "dp");
    const int second = begin(rank, rank ? dp : tp, rank ? "dp" : "tp");
    wait(rank, rank ? second : first);
    wait(rank, rank ? first : second);
  }
  EXPECT_EQ(together(),
            "no rank goes on: rank 0 waits for all_reduce over dp of 64 f32, Sum (mlp.ech:33), to which rank 1 "
            "does not come; rank 1 waits for all_reduce over tp of 64 f32, Sum (mlp.ech:33), to which rank 0 "
            "does not come");
}

// A group has room for so many messages under way: one more waits for the first.
TEST_F(ProveTest, RoomOfAGroup) {
  for (const size_t count : {kRoom, kRoom + 1}) {
    programs.clear();
    const int dp = group({0, 1}), pp = edge(0, 1);
    std::vector<int> starts[2];
    for (int rank : {0, 1}) {
      if (rank == 1)
        whole(1, pp, "pp", "receive");
      for (size_t i = 0; i < count; ++i)
        starts[rank].push_back(begin(rank, dp, "dp"));
      if (rank == 0)
        whole(0, pp, "pp", "send");
      for (int start : starts[rank])
        wait(rank, start);
    }
    EXPECT_EQ(together() == "proven", count == kRoom) << together();
  }
}

TEST_F(ProveTest, WaitsInTwoOrders) {
  const int dp = group({0, 1});
  for (int rank : {0, 1}) {
    const int first = begin(rank, dp, "dp"), second = begin(rank, dp, "dp");
    wait(rank, rank ? second : first);
    wait(rank, rank ? first : second);
  }
  EXPECT_EQ(together(), "ranks 0 and 1 wait for messages over dp in two orders");
}

// Where the norm is not finite, one would wait for what the other has not started.
TEST_F(ProveTest, StartedBeforeAndAfterTheNorm) {
  const int dp = group({0, 1});
  const int early = begin(0, dp, "dp");
  leave(0);
  wait(0, early);
  leave(1);
  whole(1, dp, "dp");
  EXPECT_EQ(together(),
            "ranks 0 and 1 differ where a step that is not finite ends: of one group or edge 0 has started 1 "
            "messages, 1 0");
}

TEST_F(ProveTest, OneLeavesAndOneGoesOn) {
  const int dp = group({0, 1});
  leave(1);
  for (int rank : {0, 1})
    whole(rank, dp, "dp");
  EXPECT_EQ(together(), "ranks 0 and 1 differ where a step that is not finite ends: 0 goes on");
}

TEST_F(ProveTest, AnotherRanksPart) {
  const int pp = edge(0, 1);
  whole(0, pp, "pp", "receive");
  whole(1, pp, "pp", "send");
  EXPECT_EQ(together(), "rank 0 has receive over pp of 64 f32, tag 0 (mlp.ech:33), which is not its part");
}

TEST_F(ProveTest, StartsAndWaitsOfOneRank) {
  const int dp = group({0, 1});
  const int start = begin(0, dp, "dp");
  wait(0, start);
  EXPECT_EQ(alone(0), "proven");
  wait(0, start);
  EXPECT_EQ(alone(0), "rank 0 waits for all_reduce over dp (mlp.ech:33), which is not under way");
  programs.clear();
  begin(0, dp, "dp");
  of(0).instructions.push_back(of(0).instructions.front());
  EXPECT_EQ(alone(0), "all_reduce over dp (mlp.ech:33) is started twice");
  of(0).instructions.pop_back();
  EXPECT_EQ(alone(0), "all_reduce over dp (mlp.ech:33) is started and never waited for");
}

// mesh(pp = 8, dp = 128) of which pp alone tells ranks apart is run as 8.
TEST_F(ProveTest, PartiesStandForTheirRanks) {
  const Parties parties({8, 128}, {0});
  EXPECT_EQ(parties.size(), 8);
  EXPECT_EQ(parties.firstRank(3), 3 * 128);
  auto channelOf = [&](rt::Message::Side side, SmallVector<rt::Span, 2> over, int party) {
    rt::Message one;
    one.side = side;
    one.over = std::move(over);
    return parties.channelOf(one, party, channels);
  };
  using Side = rt::Message::Side;
  // Each stage's dp is a group of its own, whose ranks are one party; the whole mesh is one of all.
  EXPECT_NE(channelOf(Side::Member, {{1, {}}}, 2), channelOf(Side::Member, {{1, {}}}, 3));
  EXPECT_EQ(channels[*channelOf(Side::Member, {{1, {}}}, 3)].members, (SmallVector<int, 4>{3}));
  EXPECT_EQ(channels[*channelOf(Side::Member, {{0, {}}, {1, {}}}, 3)].members.size(), 8u);
  EXPECT_EQ(channels[*channelOf(Side::Member, {{0, {0, 7}}}, 7)].members, (SmallVector<int, 4>{0, 7}));
  EXPECT_FALSE(channelOf(Side::Member, {{0, {0, 7}}}, 3));
  // An edge is one channel seen from both ends, and no other rank's.
  EXPECT_EQ(channelOf(Side::Sender, {{0, {2, 3}}}, 2), channelOf(Side::Receiver, {{0, {2, 3}}}, 3));
  EXPECT_FALSE(channelOf(Side::Sender, {{0, {2, 3}}}, 3));
  EXPECT_FALSE(channelOf(Side::Receiver, {{0, {7, 8}}}, 7));
  // Part of an axis that does not tell ranks apart is nobody's.
  EXPECT_FALSE(channelOf(Side::Sender, {{1, {2, 3}}}, 2));
}
} // namespace
