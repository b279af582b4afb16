// Computed data; the transforms of a stream.
#include "DataFixture.h"

#include <algorithm>
#include <set>

namespace echelon::runtime::test {
namespace {

// 12 digits, the answer behind a start token, the answer; held-out samples are others; the stream is a function of the
// seed.
TEST_F(Data, SortedDigits) {
  DataSpec spec = {"synthetic"};
  spec.name = "sorted_digits";
  auto stream = open(spec, {{"s", {12}, kInt, 12}, {"t", {12}, kInt, 12}, {"a", {12}, kInt, 12}});
  ASSERT_TRUE(stream) << error.text;
  EXPECT_EQ(stream->trainSize(), kUnlimited);
  V source, target, answer, other;
  std::set<double> digits;
  for (int i = 0; i < 50; ++i) {
    stream->read(Part::Training, i, 0, source);
    stream->read(Part::Training, i, 1, target);
    stream->read(Part::Training, i, 2, answer);
    digits.insert(source.begin(), source.end());
    std::sort(source.begin(), source.end());
    EXPECT_EQ(answer, source);
    EXPECT_EQ(target[0], 10);
    EXPECT_EQ(V(target.begin() + 1, target.end()), V(answer.begin(), answer.end() - 1));
  }
  EXPECT_EQ(digits, (std::set<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  stream->read(Part::Training, 0, 0, source);
  EXPECT_NE(heldOut(*stream, 0, 0), source);
  auto again = openData(spec, {}, 7, "", error), reseeded = openData(spec, {}, 8, "", error);
  again->read(Part::Training, 0, 0, other);
  EXPECT_EQ(other, source);
  reseeded->read(Part::Training, 0, 0, other);
  EXPECT_NE(other, source);
  EXPECT_FALSE(open(spec, {{"s", {12}, kInt, 12}, {"t", {12}, kInt, 10}, {"a", {12}, kInt, 12}}));
  EXPECT_EQ(message(),
            "the largest token of synthetic(sorted_digits) is 10, t is int below 10, from 0 to 9; the largest is 10: "
            "the axis needs 11 places");
}

// Labels are the tokens one further, all below the axis.
TEST_F(Data, SyntheticTokens) {
  DataSpec spec = {"synthetic"};
  spec.name = "tokens";
  auto stream = open(spec, {{"tokens", {8}, kInt, 50}, {"labels", {8}, kInt, 50}});
  ASSERT_TRUE(stream) << error.text;
  V tokens, labels;
  stream->read(Part::Training, 3, 0, tokens);
  stream->read(Part::Training, 3, 1, labels);
  EXPECT_EQ(V(tokens.begin() + 1, tokens.end()), V(labels.begin(), labels.end() - 1));
  for (double t : labels)
    EXPECT_TRUE(t >= 0 && t < 50 && t == int(t));
}

// flip mirrors about half of the samples and crop moves by at most pad, in training alone; normalize acts always.
TEST_F(Data, Transforms) {
  V pixels;
  for (int i = 0; i < 2 * 3 * 4; ++i)
    pixels.push_back(i + 1);
  std::string two = bytesOfValues(pixels);
  write("x.npy", npy("<f8", "(1, 2, 3, 4)", two));
  DataSpec spec = {"npy", {"x.npy"}};
  const std::vector<InputShape> inputs = {{"x", {2, 3, 4}, kFloat, 0}};
  V values;

  spec.transforms = {{"flip", {}}};
  auto stream = open(spec, inputs);
  int flipped = 0;
  for (int i = 0; i < 400; ++i) {
    stream->read(Part::Training, i, 0, values);
    EXPECT_TRUE(values[0] == 1 || values[0] == 4);
    EXPECT_EQ(values[0] == 4, values[23] == 21);
    flipped += values[0] == 4;
  }
  EXPECT_NEAR(flipped, 200, 50);
  stream->readPlain(Part::Training, 0, 0, values);
  EXPECT_EQ(values, pixels);

  spec.transforms = {{"crop", {1}}};
  stream = open(spec, inputs);
  std::set<double> corners;
  for (int i = 0; i < 400; ++i) {
    stream->read(Part::Training, i, 0, values);
    corners.insert(values[5]); // was 6 at (1, 1): now any of its neighbours
  }
  EXPECT_EQ(corners, (std::set<double>{1, 2, 3, 5, 6, 7, 9, 10, 11}));

  spec.transforms = {{"normalize", {1, 2, 10, 100}}};
  stream = open(spec, inputs);
  stream->readPlain(Part::Training, 0, 0, values);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[23], (24 - 2) / 100.0);

  spec.transforms = {{"normalize", {1, 2, 3, 1, 1, 1}}};
  EXPECT_FALSE(open(spec, inputs));
  EXPECT_EQ(message(), "normalize has 3 channels; x has [2, 3, 4]; one mean and one std are for all");
  spec.transforms = {{"rotate", {}}};
  EXPECT_FALSE(open(spec, inputs));
  EXPECT_EQ(message(), "transform rotate is not built");
  EXPECT_FALSE(open({"mix"}, inputs));
  EXPECT_EQ(message(), "data source mix is not built");
}

} // namespace
} // namespace echelon::runtime::test
