#include "runtime/transport/shared/DirectPass.h"
#include "runtime/transport/shared/CopyBytes.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

using namespace echelon::runtime;

// A maximum over ranks does not lose a NaN, whichever side it is on: a loss that is not finite stays so.
TEST(Combine, NanIsNotLost) {
  for (ReduceOp op : {Sum, Max, Min}) {
    std::vector<float> left = {NAN, 1, 2}, right = {1, NAN, 3}, result(3);
    combine(result.data(), left.data(), right.data(), 3, ElementType::Float32, op);
    EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]));
    EXPECT_EQ(result[2], op == Sum ? 5 : op == Max ? 3 : 2);
  }
}

// Every length and every position of target and source within a cache line, with and without streaming stores; nothing
// beyond the target is touched.
TEST(CopyBytes, AllPositions) {
  std::vector<char> source(5000), target(5000);
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = char(1 + i % 101);
  for (bool streams : {false, true})
    for (size_t bytes : {0, 1, 31, 511, 512, 513, 640, 1000, 4096})
      for (size_t to : {0, 1, 16, 31, 63})
        for (size_t from : {0, 3, 32, 48}) {
          std::fill(target.begin(), target.end(), 0);
          copyBytes(target.data() + to, source.data() + from, bytes, streams);
          for (size_t i = 0; i < target.size(); ++i)
            ASSERT_EQ(target[i], i >= to && i < to + bytes ? source[from + i - to] : 0) << bytes << " " << i;
        }
}

// Rows in runs, beyond the cache too, where runs long enough are stored past it: each element comes from, or goes to,
// its place.
TEST(Shares, RowsInRuns) {
  const int places = 2;
  for (int64_t runs : {2, 64, 65536})
    for (Collective kind : {Collective::AllGather, Collective::ReduceScatter}) {
      CollectiveCall call;
      call.kind = kind;
      call.type = ElementType::Float32;
      call.count = 3 << 20;
      call.runs = runs;
      const bool gathers = kind == Collective::AllGather;
      const int64_t all = places * call.count, length = call.count / runs;
      std::vector<std::vector<float>> in(places), out(places);
      DirectBuffers buffers;
      for (int place = 0; place < places; ++place) {
        in[place].resize(gathers ? call.count : all);
        out[place].resize(gathers ? all : call.count);
        for (size_t i = 0; i < in[place].size(); ++i)
          in[place][i] = float((place + 1) * (i % 1000003));
        buffers.in.push_back(reinterpret_cast<const char *>(in[place].data()));
        buffers.out.push_back(reinterpret_cast<char *>(out[place].data()));
      }
      for (int share = 0; share < places; ++share) {
        const int64_t end = shareLength(call, places, share), cut = end / 3 + 5;
        doShare(call, buffers, share, 0, cut);
        doShare(call, buffers, share, cut, end);
      }
      for (int row = 0; row < places; ++row)
        for (int64_t i = 0; i < call.count; ++i) {
          const int64_t whole = (i / length * places + row) * length + i % length;
          if (gathers)
            ASSERT_EQ(out[0][whole], in[row][i]) << runs << " " << row << " " << i;
          else
            ASSERT_EQ(out[row][i], in[0][whole] + in[1][whole]) << runs << " " << row << " " << i;
        }
    }
}

// Shares cover the buffer once, whatever its size.
TEST(Shares, CoverTheBuffer) {
  for (int places : {2, 3, 8})
    for (int64_t count : {0, 1, 16, 17, 1000, 100003}) {
      CollectiveCall call;
      call.kind = Collective::AllReduce;
      call.type = ElementType::Float32;
      call.count = count;
      int64_t total = 0;
      for (int share = 0; share < places; ++share)
        total += shareLength(call, places, share);
      EXPECT_EQ(total, count);
    }
}
