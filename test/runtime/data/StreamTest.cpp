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

/// A picture and its mask, and a transform of both.
class Pictures : public Data {
protected:
  void SetUp() override {
    Data::SetUp();
    for (int i = 0; i < 2 * 3 * 4; ++i)
      pixels.push_back(i + 1);
    std::vector<int32_t> classes(pixels.begin(), pixels.end());
    write("x.npy", npy("<f8", "(1, 2, 3, 4)", bytesOfValues(pixels)));
    write("m.npy", npy("<i4", "(1, 3, 4)", bytesOfValues(std::vector<int32_t>(classes.begin(), classes.begin() + 12))));
    write("r.npy", npy("<f8", "(1, 3)", bytesOfValues<double>({1, 5, 9})));
  }
  std::unique_ptr<DataStream> with(std::vector<TransformSpec> transforms) {
    DataSpec spec = {"npy", {"x.npy", "m.npy", "r.npy"}};
    spec.transforms = std::move(transforms);
    return open(spec, inputs);
  }
  std::string refusal(const TransformSpec &transform) {
    EXPECT_FALSE(with({transform}));
    EXPECT_EQ(error.transform, 0);
    return message();
  }
  static V values(const DataStream &stream, int64_t index, int output) {
    V result;
    stream.read(Part::Training, index, output, result);
    return result;
  }

  V pixels;
  std::vector<InputShape> inputs = {{"image", {2, 3, 4}, kFloat, 0, {"rgb", "row", "column"}},
                                    {"mask", {3, 4}, kInt, 100, {"row", "column"}, "class"},
                                    {"rows", {3}, kFloat, 0, {"row"}}};
};

// flip mirrors about half of the samples along the axis that it names, every input that has it alike, in training
// alone.
TEST_F(Pictures, Flip) {
  auto stream = with({{"flip", {}, {"column"}}});
  ASSERT_TRUE(stream) << message();
  int flipped = 0;
  for (int i = 0; i < 400; ++i) {
    const V image = values(*stream, i, 0), mask = values(*stream, i, 1);
    EXPECT_TRUE(image[0] == 1 || image[0] == 4);
    EXPECT_EQ(image[0] == 4, image[23] == 21);
    EXPECT_EQ(V(image.begin(), image.begin() + 12), mask);
    EXPECT_EQ(values(*stream, i, 2), (V{1, 5, 9}));
    flipped += image[0] == 4;
  }
  EXPECT_NEAR(flipped, 200, 50);
  V plain;
  stream->readPlain(Part::Training, 0, 0, plain);
  EXPECT_EQ(plain, pixels);

  stream = with({{"flip", {}, {"row"}, {"image"}}}); // an axis within, one input
  std::set<double> corners;
  for (int i = 0; i < 40; ++i) {
    const V image = values(*stream, i, 0);
    corners.insert(image[0]);
    EXPECT_EQ(image[12], image[0] + 12);
    EXPECT_EQ(image[3], image[0] + 3);
    EXPECT_EQ(values(*stream, i, 1)[0], 1);
  }
  EXPECT_EQ(corners, (std::set<double>{1, 9}));
}

// crop moves by at most pad along each axis that it names, an input along those that it has; after the border is 0.
TEST_F(Pictures, Crop) {
  auto stream = with({{"crop", {1}, {"row", "column"}}});
  ASSERT_TRUE(stream) << message();
  std::set<double> corners;
  for (int i = 0; i < 400; ++i) {
    const V image = values(*stream, i, 0), mask = values(*stream, i, 1), rows = values(*stream, i, 2);
    corners.insert(image[5]); // was 6 at (1, 1): now any of its neighbours
    EXPECT_EQ(V(image.begin(), image.begin() + 12), mask);
    const int down = rows[0] == 0 ? -1 : rows[0] == 5;
    EXPECT_EQ(rows, (down < 0 ? V{0, 1, 5} : down ? V{5, 9, 0} : V{1, 5, 9}));
    EXPECT_EQ((int(image[5]) - 1) / 4, 1 + down);
    for (int at = 0; at < 12; ++at) { // whole rows move, and the planes alike
      EXPECT_EQ(image[size_t(at)] == 0, image[size_t(at + 12)] == 0);
      EXPECT_TRUE(image[size_t(at)] == 0 || image[size_t(at + 12)] == image[size_t(at)] + 12);
    }
  }
  EXPECT_EQ(corners, (std::set<double>{1, 2, 3, 5, 6, 7, 9, 10, 11}));
}

// normalize acts on floats alone, by one mean or by one for each place of an axis, in evaluation, too.
TEST_F(Pictures, Normalize) {
  auto stream = with({{"normalize", {1, 2, 10, 100}, {"rgb"}}});
  ASSERT_TRUE(stream) << message();
  V image;
  stream->readPlain(Part::Training, 0, 0, image);
  EXPECT_EQ(image[0], 0);
  EXPECT_EQ(image[23], (24 - 2) / 100.0);
  stream = with({{"normalize", {1, 3, 5, 1, 2, 4}, {"row"}}});
  ASSERT_TRUE(stream) << message();
  EXPECT_EQ(values(*stream, 0, 0)[23], (24 - 5) / 4.0);
  EXPECT_EQ(values(*stream, 0, 0)[16], (17 - 3) / 2.0);
  EXPECT_EQ(values(*stream, 0, 1)[11], 12);
  EXPECT_EQ(values(*stream, 0, 2), (V{0, 1, 1}));
  stream = with({{"normalize", {1, 2}, {}, {"rows"}}});
  ASSERT_TRUE(stream) << message();
  EXPECT_EQ(values(*stream, 0, 2), (V{0, 2, 4}));
  EXPECT_EQ(values(*stream, 0, 0), pixels);
}

// Of one input of floats and one axis, means without an axis lie along that one: there is nothing to choose.
TEST_F(Pictures, NormalizeTheOnlyAxis) {
  const std::vector<TransformSpec> bare = {{"normalize", {1, 3, 5, 1, 2, 4}}};
  const DataSpec spec = {"npy", {"r.npy", "m.npy"}, "", {}, {}, bare};
  inputs = {inputs[2], inputs[1]};
  auto stream = open(spec, inputs);
  ASSERT_TRUE(stream) << message();
  EXPECT_EQ(values(*stream, 0, 0), (V{0, 1, 1}));
  EXPECT_EQ(values(*stream, 0, 1)[11], 12);
  EXPECT_FALSE(open({"npy", {"r.npy", "m.npy"}, "", {}, {}, {{"normalize", {1, 2, 1, 1}}}}, inputs));
  EXPECT_EQ(message(), "normalize has 2 means, and row has 3 places");
  inputs[1] = {"mask", {3, 4}, kFloat, 0, {"row", "column"}};
  EXPECT_FALSE(open(spec, inputs)); // two inputs of floats
  EXPECT_EQ(message(),
            "normalize has 3 means, and acts along the axis that it names, as in normalize(row, mean = …, std "
            "= …); rows has row");
}

// What a transform means is never guessed.
TEST_F(Pictures, Refusals) {
  EXPECT_EQ(refusal({"flip", {}}),
            "flip mirrors the axis that it names, as in flip(column); image has rgb, row and column");
  EXPECT_EQ(refusal({"crop", {2}}),
            "crop cuts along the axes that it names, as in crop(row, column, pad = 2); image has rgb, row and column");
  EXPECT_EQ(refusal({"normalize", {1, 2, 1, 1}}),
            "normalize has 2 means, and acts along the axis that it names, as in normalize(rgb, mean = …, std = …); "
            "image has rgb, row and column");
  EXPECT_EQ(refusal({"normalize", {1, 1}}),
            "normalize may mean image and rows; say on which it acts, as in normalize(mean = …, std = …, on = image)");
  EXPECT_EQ(refusal({"normalize", {1, 1}, {}, {"mask"}}), "normalize acts on floats; mask is int");
  EXPECT_EQ(refusal({"normalize", {1, 2, 1, 1}, {"row"}}), "normalize has 2 means, and row has 3 places");
  EXPECT_EQ(refusal({"flip", {}, {"colum"}}), "no input has the axis colum within a sample; did you mean column?");
  EXPECT_EQ(refusal({"flip", {}, {"batch"}}),
            "no input has the axis batch within a sample; there is rgb, row and column");
  EXPECT_EQ(refusal({"flip", {}, {"column"}, {"image", "rows"}}),
            "flip is to act on rows, which does not have the axis column; rows has row");
  EXPECT_EQ(refusal({"crop", {3}, {"row", "column"}}),
            "crop by up to 3 places may leave nothing of row, of which there are 3");
  EXPECT_EQ(refusal({"rotate", {}}), "transform rotate is not built");
  inputs[1].belowAxis = "column"; // where an edge is, say
  EXPECT_EQ(
      refusal({"flip", {}, {"column"}}),
      "mask is int below column, places along the axis that flip moves, and would stay as it is; where it holds no "
      "such places, name the inputs that move, as in on = image");
  EXPECT_TRUE(with({{"flip", {}, {"column"}, {"image", "mask"}}})) << message();
  EXPECT_FALSE(open({"mix"}, inputs));
  EXPECT_EQ(message(), "data source mix is not built");
}

// Of its own pictures a source knows the axes, whatever they are called; the draws are those of the axes by name.
TEST_F(Data, TransformsOfPictures) {
  std::string pixels, record(1, 3);
  for (int i = 0; i < 3 * 32 * 32; ++i)
    record += char(i % 251);
  write("data_batch_1.bin", record);
  write("test_batch.bin", record);
  const InputShape label = {"label", {}, kInt, 10};
  auto stream = [&](std::vector<TransformSpec> transforms, std::vector<std::string> axes) {
    DataSpec spec = {"cifar10", {"."}};
    spec.transforms = std::move(transforms);
    return open(spec, {{"image", {3, 32, 32}, kFloat, 0, std::move(axes)}, label});
  };
  const std::vector<double> means = {0.5, 0.4, 0.3, 0.1, 0.2, 0.3};
  auto bare = stream({{"crop", {4}}, {"flip", {}}, {"normalize", means}}, {"rgb", "column", "row"});
  auto named = stream({{"crop", {4}, {"row", "column"}}, {"flip", {}, {"column"}}, {"normalize", means, {"rgb"}}},
                      {"rgb", "row", "column"});
  ASSERT_TRUE(bare && named) << message();
  V one, other, plain;
  bare->readPlain(Part::Training, 0, 0, plain);
  EXPECT_DOUBLE_EQ(plain[3071], (3071 % 251 / 255.0 - 0.3) / 0.3);
  int moved = 0;
  for (int i = 0; i < 20; ++i) {
    bare->read(Part::Training, i, 0, one);
    named->read(Part::Training, i, 0, other);
    EXPECT_EQ(one, other);
    moved += one != plain;
  }
  EXPECT_GE(moved, 15);
  EXPECT_FALSE(stream({{"normalize", {1, 1, 1, 1}}}, {"rgb", "row", "column"}));
  EXPECT_EQ(message(), "normalize has 2 means, and a picture of cifar10 has 3 channels");
}

} // namespace
} // namespace echelon::runtime::test
