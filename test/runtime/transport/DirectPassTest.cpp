#include "runtime/transport/DirectPass.h"
#include "runtime/transport/CopyBytes.h"

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
