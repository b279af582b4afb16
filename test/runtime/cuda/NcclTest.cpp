// The emulated NCCL: each operation and type over 2 to 4 ranks under several orders; splits, groups, graphs.
#include "OnRanks.h"
#include "UnderSeeds.h"

#include <algorithm>
#include <vector>

namespace echelon::cuda {
namespace {

using namespace ranks;

template <typename T> T as(double x) {
  if constexpr (runtime::isNarrow<T>)
    return T(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

/// What a rank contributes: small integers, so that all types hold them.
template <typename T> std::vector<T> contribution(int rank, size_t count) {
  std::vector<T> x;
  for (size_t i = 0; i < count; ++i)
    x.push_back(as<T>(double((i * 5 + size_t(rank) * 3) % 4 + 1)));
  return x;
}

double reduced(ncclRedOp_t op, int size, size_t i) {
  double all = op == ncclProd ? 1 : op == ncclMin ? 99 : 0;
  for (int rank = 0; rank < size; ++rank) {
    const double x = double((i * 5 + size_t(rank) * 3) % 4 + 1);
    all = op == ncclProd ? all * x : op == ncclMin ? std::min(all, x) : op == ncclMax ? std::max(all, x) : all + x;
  }
  return op == ncclAvg ? all / size : all;
}

template <typename T> constexpr ncclDataType_t kType = ncclFloat32;
template <> constexpr ncclDataType_t kType<double> = ncclFloat64;
template <> constexpr ncclDataType_t kType<bf16> = ncclBfloat16;
template <> constexpr ncclDataType_t kType<fp16> = ncclFloat16;
template <> constexpr ncclDataType_t kType<int8_t> = ncclInt8;
template <> constexpr ncclDataType_t kType<uint8_t> = ncclUint8;
template <> constexpr ncclDataType_t kType<int32_t> = ncclInt32;
template <> constexpr ncclDataType_t kType<int64_t> = ncclInt64;

constexpr ncclRedOp_t kReductions[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};
constexpr size_t kCount = 37;

template <typename T> struct Nccl : ::testing::Test {};
using Elements = ::testing::Types<float, double, bf16, fp16, int8_t, uint8_t, int32_t, int64_t>;
TYPED_TEST_SUITE(Nccl, Elements);

/// The element as T holds it: integers drop what is behind the point of an average.
template <typename T> double held(double x) { return double(as<T>(x)); }

// all_reduce, reduce to the last rank, and reduce_scatter.
TYPED_TEST(Nccl, Reductions) {
  using T = TypeParam;
  for (int size : {2, 3, 4})
    underSeeds([size] {
      onRanks(size, [](Rank &r) {
        for (ncclRedOp_t op : kReductions) {
          const size_t all = kCount * size_t(r.size), own = kCount * size_t(r.rank);
          Buffer<T> in(contribution<T>(r.rank, all)), sum(zeros<T>(all)), last(zeros<T>(all)), share(zeros<T>(kCount));
          check(ncclAllReduce(in.get(), sum.get(), all, kType<T>, op, r.world, r.stream));
          check(ncclReduce(in.get(), last.get(), all, kType<T>, op, r.size - 1, r.world, r.stream));
          check(ncclReduceScatter(in.get(), share.get(), kCount, kType<T>, op, r.world, r.stream));
          const auto onSum = sum.host(), onLast = last.host(), onShare = share.host();
          for (size_t i = 0; i < all; ++i) {
            ASSERT_EQ(onSum[i], held<T>(reduced(op, r.size, i)));
            ASSERT_EQ(onLast[i], r.rank == r.size - 1 ? held<T>(reduced(op, r.size, i)) : 0);
          }
          for (size_t i = 0; i < kCount; ++i)
            ASSERT_EQ(onShare[i], held<T>(reduced(op, r.size, own + i)));
        }
      });
    });
}

// all_gather and broadcast; in place, too.
TYPED_TEST(Nccl, Copies) {
  using T = TypeParam;
  for (int size : {2, 3, 4})
    underSeeds([size] {
      onRanks(size, [](Rank &r) {
        const size_t all = kCount * size_t(r.size);
        Buffer<T> in(contribution<T>(r.rank, kCount)), gathered(zeros<T>(all)), inPlace(zeros<T>(all)),
            first(zeros<T>(kCount));
        T *own = inPlace.get() + kCount * size_t(r.rank);
        cudaMemcpyAsync(own, in.get(), kCount * sizeof(T), cudaMemcpyDeviceToDevice, r.stream);
        check(ncclAllGather(in.get(), gathered.get(), kCount, kType<T>, r.world, r.stream));
        check(ncclAllGather(own, inPlace.get(), kCount, kType<T>, r.world, r.stream));
        check(ncclBroadcast(in.get(), first.get(), kCount, kType<T>, 1, r.world, r.stream));
        std::vector<double> expected;
        for (int rank = 0; rank < r.size; ++rank)
          for (T x : contribution<T>(rank, kCount))
            expected.push_back(double(x));
        EXPECT_EQ(gathered.host(), expected);
        EXPECT_EQ(inPlace.host(), expected);
        EXPECT_EQ(first.host(), std::vector<double>(expected.begin() + kCount, expected.begin() + 2 * kCount));
      });
    });
}

// Each sends to the next and receives from the one before, in one group.
TYPED_TEST(Nccl, RingOfMessages) {
  using T = TypeParam;
  for (int size : {2, 3, 4})
    underSeeds([size] {
      onRanks(size, [](Rank &r) {
        Buffer<T> out(contribution<T>(r.rank, kCount)), in(zeros<T>(kCount));
        const int next = (r.rank + 1) % r.size, before = (r.rank + r.size - 1) % r.size;
        check(ncclGroupStart());
        check(ncclSend(out.get(), kCount, kType<T>, next, r.world, r.stream));
        check(ncclRecv(in.get(), kCount, kType<T>, before, r.world, r.stream));
        check(ncclGroupEnd());
        const auto expected = contribution<T>(before, kCount);
        EXPECT_EQ(in.host(), std::vector<double>(expected.begin(), expected.end()));
      });
    });
}

// Three numbers that bf16 cannot add one by one: 256 + 1 + 1 is 256 where each sum is rounded, and 258 where it is
// once.
TEST(NcclNarrow, SumsAreRoundedOnce) {
  onRanks(3, [](Rank &r) {
    Buffer<bf16> x({bf16(r.rank == 0 ? 256.0f : 1.0f)});
    check(ncclAllReduce(x.get(), x.get(), 1, ncclBfloat16, ncclSum, r.world, r.stream));
    EXPECT_EQ(x.host(), std::vector<double>{258});
  });
}

// Floats are added in the order of ranks, in every order of streams.
TEST(NcclSums, HaveTheSameBitsUnderAllSeeds) {
  underSeeds([] {
    onRanks(4, [](Rank &r) {
      const float terms[] = {1e8f, 3.3f, -1e8f, 0.7f};
      Buffer<float> x({terms[r.rank]});
      check(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, r.world, r.stream));
      EXPECT_EQ(x.host()[0], double(((terms[0] + terms[1]) + terms[2]) + terms[3]));
    });
  });
}

// Even and odd ranks, the later ones first.
TEST(NcclSplit, OrdersByKey) {
  underSeeds([] {
    onRanks(4, [](Rank &r) {
      ncclComm_t part, none;
      check(ncclCommSplit(r.world, r.rank % 2, -r.rank, &part, nullptr));
      check(ncclCommSplit(r.world, r.rank == 3 ? NCCL_SPLIT_NOCOLOR : 0, r.rank, &none, nullptr));
      int rank, size;
      check(ncclCommUserRank(part, &rank));
      check(ncclCommCount(part, &size));
      EXPECT_EQ(size, 2);
      EXPECT_EQ(rank, r.rank < 2 ? 1 : 0);
      EXPECT_EQ(none == nullptr, r.rank == 3);
      Buffer<int32_t> own({r.rank}), all({0, 0});
      check(ncclAllGather(own.get(), all.get(), 1, ncclInt32, part, r.stream));
      EXPECT_EQ(all.host(), (std::vector<double>{double(r.rank % 2 + 2), double(r.rank % 2)}));
      check(ncclCommDestroy(part));
      if (none)
        check(ncclCommDestroy(none));
    });
  });
}

// Messages of three ranks cross in one group; a rank sends to itself, too.
TEST(NcclGroup, AllToAll) {
  underSeeds([] {
    onRanks(3, [](Rank &r) {
      Buffer<int32_t> out({r.rank * 10, r.rank * 10 + 1, r.rank * 10 + 2}), in({0, 0, 0});
      check(ncclGroupStart());
      for (int peer = 0; peer < 3; ++peer) {
        check(ncclSend(out.get() + peer, 1, ncclInt32, peer, r.world, r.stream));
        check(ncclRecv(in.get() + peer, 1, ncclInt32, peer, r.world, r.stream));
      }
      check(ncclGroupEnd());
      EXPECT_EQ(in.host(), (std::vector<double>{double(r.rank), double(10 + r.rank), double(20 + r.rank)}));
    });
  });
}

__global__ void add_one(float *x) {
  if (element() == 0)
    *x += 1;
}

// A captured sum, launched three times, between kernels on another stream.
TEST(NcclGraph, SumsAtEachLaunch) {
  underSeeds([] {
    onRanks(2, [](Rank &r) {
      Buffer<float> x({float(r.rank)});
      const Stream other = streamOfRank(r.rank, 1);
      cudaEvent_t made, back;
      cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
      cudaEventCreateWithFlags(&back, cudaEventDisableTiming);
      cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal);
      launch("add one", add_one, cover(1, 32), r.stream, inout(x.get(), 1));
      cudaEventRecord(made, r.stream);
      cudaStreamWaitEvent(other, made, 0);
      check(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, r.world, other));
      cudaEventRecord(back, other);
      cudaStreamWaitEvent(r.stream, back, 0);
      cudaGraph_t graph;
      cudaGraphExec_t exec;
      ASSERT_EQ(cudaStreamEndCapture(r.stream, &graph), cudaSuccess);
      ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
      for (int i = 0; i < 3; ++i)
        cudaGraphLaunch(exec, r.stream);
      EXPECT_EQ(x.host(), std::vector<double>{18}); // 1 + 2, 4 + 4, 9 + 9
      cudaEventDestroy(made);
      cudaEventDestroy(back);
      cudaGraphExecDestroy(exec);
      cudaGraphDestroy(graph);
    });
  });
}

} // namespace
} // namespace echelon::cuda
