#include "CollectiveChecks.h"
#include "runtime/launch/Launch.h"

#include <gtest/gtest.h>

namespace echelon::runtime::test {
namespace {

std::string errorOf(const std::function<void(Transport &)> &call, int ranks = 2) {
  LaunchOptions options;
  options.ranks = ranks;
  options.deadlineSeconds = 20;
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch(options,
                   [&](Transport &t) {
                     call(t);
                     return 0;
                   }),
            4);
  return testing::internal::GetCapturedStderr();
}

// What a transport or a collective cannot do is said, by name, at the call.
TEST(Refused, AlgorithmsThatDoNotExist) {
  float data[4] = {}, out[4] = {};
  EXPECT_NE(errorOf([&](Transport &t) { all_reduce(t, t.world(), data, 4, Sum, {Algorithm::native, "a.ech:3"}); })
                .find("all_reduce with native (a.ech:3) is not possible over shm, which has direct, ring, butterfly, "
                      "tree and one_to_all\n"),
            std::string::npos);
  EXPECT_NE(errorOf([&](Transport &t) {
              all_to_all(t, t.world(), out, data, 2, {Algorithm::tree, "a.ech:4"});
            }).find("all_to_all with tree (a.ech:4): there is no such algorithm\n"),
            std::string::npos);
  EXPECT_NE(errorOf([&](Transport &t) {
              broadcast(t, t.world(), data, 4, 2);
            }).find("the root of broadcast is place 2 in a group of 2\n"),
            std::string::npos);
}

// Ranks that call different collectives are told apart, in words.
TEST(Refused, RanksThatDisagree) {
  std::string error = errorOf([](Transport &t) {
    float data[9] = {};
    t.setStep(3);
    all_reduce(t, t.world(), data, 8 + t.rank(), Sum, {Algorithm::direct, t.rank() ? "b.ech:2" : "b.ech:1"});
  });
  EXPECT_NE(error.find("ranks disagree: this one is in all_reduce (b.ech:"), std::string::npos) << error;
  EXPECT_NE(error.find("all_reduce of 8 float, Sum"), std::string::npos) << error;
  EXPECT_NE(error.find("all_reduce of 9 float, Sum"), std::string::npos) << error;
  error = errorOf([](Transport &t) {
    float in[4] = {}, out[8] = {};
    all_gather_inner(t, t.world(), out, in, 2 + 2 * t.rank(), 2 - t.rank(), {Algorithm::direct, "b.ech:3"});
  });
  EXPECT_NE(error.find("all_gather of 4 float, rows in 2 runs"), std::string::npos) << error;
  EXPECT_NE(error.find("all_gather of 4 float, rows in 4 runs"), std::string::npos) << error;
}

TEST(Refused, MessagesOfOtherLength) {
  std::string error = errorOf([](Transport &t) {
    float data[9] = {};
    if (t.rank() == 0)
      send(t, t.world(), 1, data, 3, "c.ech:1");
    else
      receive(t, t.world(), 0, data, 5, "c.ech:1");
    barrier(t, t.world());
  });
  EXPECT_NE(error.find("echelon: rank 1: ranks disagree: this one receives 20 bytes from rank 0 (c.ech:1), which sends "
                       "12\n"),
            std::string::npos)
      << error;
}

} // namespace
} // namespace echelon::runtime::test
