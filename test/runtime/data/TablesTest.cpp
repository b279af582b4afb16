// npy arrays and csv tables.
#include "DataFixture.h"

namespace echelon::runtime::test {
namespace {

// One array an input, in C or Fortran order, packed or not; values come unchanged.
TEST_F(Data, Npy) {
  writePacked("x.npy", npy("<f8", "(2, 3)", bytesOfValues<double>({0.5, 1, 2, 3, 4, 1e30})));
  write("xf.npy", npy("<f4", "(2, 3)", bytesOfValues<float>({0.5, 3, 1, 4, 2, 5}), true));
  write("y.npy", npy("<i8", "(2,)", bytesOfValues<int64_t>({1, 2})));
  write("b.npy", npy("|b1", "(2, 1)", {1, 0}));
  auto stream = open({"npy", {"x.npy", "xf.npy", "y.npy", "b.npy"}},
                     {{"x", {3}, kFloat, 0}, {"xf", {3}, kFloat, 0}, {"y", {}, kInt, 3}, {"b", {1}, kBool, 0}});
  ASSERT_TRUE(stream) << error.text;
  EXPECT_EQ(stream->trainSize(), 2);
  EXPECT_EQ(stream->heldOutSize(), 0);
  V values;
  stream->readPlain(Part::Training, 1, 0, values);
  EXPECT_EQ(values, (V{3, 4, 1e30}));
  stream->readPlain(Part::Training, 1, 1, values);
  EXPECT_EQ(values, (V{3, 4, 5}));
  stream->readPlain(Part::Training, 1, 2, values);
  EXPECT_EQ(values, (V{2}));
  stream->readPlain(Part::Training, 0, 3, values);
  EXPECT_EQ(values, (V{1}));
}

TEST_F(Data, NpyErrors) {
  write("x.npy", npy("<f4", "(2, 3)", bytesOfValues<float>({0, 1, 2, 3, 4, 5})));
  write("y.npy", npy("<i4", "(2,)", bytesOfValues<int32_t>({1, -2})));
  write("three.npy", npy("<i4", "(3,)", bytesOfValues<int32_t>({1, 2, 3})));
  write("cut.npy", npy("<i4", "(4,)", bytesOfValues<int32_t>({1, 2, 3})));
  write("negative.npy", npy("<i4", "(-3,)", bytesOfValues<int32_t>({1, 2, 3})));
  write("wide.npy", npy("<u8", "(1,)", bytesOfValues<uint64_t>({~uint64_t(0)})));
  write("big.npy", npy(">i4", "(1,)", bytesOfValues<int32_t>({1})));
  const InputShape x = {"x", {3}, kFloat, 0}, y = {"y", {}, kInt, 10};
  EXPECT_FALSE(open({"npy", {"x.npy", "y.npy"}}, {x, y}));
  EXPECT_EQ(
      message(),
      "value 1 of \"DIR/y.npy\" is -2, y is int below 10, from 0 to 9; all lie from -2 to 1; if -2 marks what "
      "counts nothing, save 10 there, declare axis mark = 11 and y as int below mark, and write loss sum(where(y < "
      "10, cross_entropy(logits, min(y, 9), over = class), 0)) / sum(where(y < 10, 1, 0)); or save any class there "
      "and fill a further input weight with 0 there, 1 elsewhere: loss sum(weight * cross_entropy(logits, y, over "
      "= class)) / sum(weight)");
  write("y.npy", npy("<i4", "(2,)", bytesOfValues<int32_t>({10, -2}))); // not a mark alone
  EXPECT_FALSE(open({"npy", {"x.npy", "y.npy"}}, {x, y}));
  EXPECT_EQ(message(), "value 0 of \"DIR/y.npy\" is 10, y is int below 10, from 0 to 9; all lie from -2 to 10");
  write("y.npy", npy("<i4", "(2,)", bytesOfValues<int32_t>({99, 255})));
  EXPECT_FALSE(open({"npy", {"x.npy", "y.npy"}}, {x, y}));
  EXPECT_EQ(message(), "value 0 of \"DIR/y.npy\" is 99, y is int below 10, from 0 to 9; the largest is 255: the axis "
                       "needs 256 places");
  write("y.npy", npy("<i4", "(2,)", bytesOfValues<int32_t>({1, -2})));
  EXPECT_FALSE(open({"npy", {"x.npy", "three.npy"}}, {x, y}));
  EXPECT_EQ(message(), "\"DIR/three.npy\" has 3 samples, the file before it 2; each sample has a part in every file");
  EXPECT_FALSE(open({"npy", {"x.npy", "x.npy"}}, {x, y}));
  EXPECT_EQ(
      message(),
      "\"DIR/x.npy\" gives [3] a sample, y is []; name files and inputs in the same order, and declare axes of the "
      "file's sizes");
  EXPECT_FALSE(open({"npy", {"x.npy", "x.npy"}}, {x, {"y", {}, kInt, 3}}));
  EXPECT_EQ(message(),
            "\"DIR/x.npy\" gives [3] a sample, y is []; where a number for each of 3 classes marks one of them, save "
            "array.argmax(axis=-1), or declare y with the axis of the classes, and : float");
  EXPECT_FALSE(open({"npy", {"x.npy"}}, {{"x", {3}, kInt, 10}}));
  EXPECT_EQ(message(), "\"DIR/x.npy\" has values of type float, x is int; save integers, as array.astype('int64') is");
  EXPECT_FALSE(open({"npy", {"cut.npy"}}, {y}));
  EXPECT_EQ(message(), "\"DIR/cut.npy\" is shorter than its header says");
  EXPECT_FALSE(open({"npy", {"negative.npy"}}, {y}));
  EXPECT_EQ(message(), "\"DIR/negative.npy\" is not an npy file: it has a negative size");
  EXPECT_FALSE(open({"npy", {"wide.npy"}}, {{"y", {}, kInt, 0}}));
  EXPECT_EQ(message(), "value 0 of \"DIR/wide.npy\" is 9223372036854775807, y is int, of 32 bits");
  EXPECT_FALSE(open({"npy", {"big.npy"}}, {y}));
  EXPECT_EQ(message(),
            "\"DIR/big.npy\" has values of type >i4; float32, float64, bool and little-endian integers are read; "
            "save array.astype('int64')");
}

// A bool is 0 or 1, whatever its byte.
TEST_F(Data, NpyBool) {
  write("b.npy", npy("|b1", "(2,)", {2, 0}));
  auto stream = open({"npy", {"b.npy"}}, {{"b", {}, kBool, 0}});
  ASSERT_TRUE(stream) << error.text;
  V values;
  stream->readPlain(Part::Training, 0, 0, values);
  EXPECT_EQ(values, (V{1}));
}

// One header line, then columns from left to right; quotes, spaces, a file without a last line end.
TEST_F(Data, Csv) {
  write("x.csv", "a,\"b, c\",label\r\n1.5, -2e3,2\r\n\"3\",+4,0");
  auto stream = open({"csv", {"x.csv"}}, {{"x", {2}, kFloat, 0}, {"y", {}, kInt, 3}});
  ASSERT_TRUE(stream) << error.text;
  EXPECT_EQ(stream->trainSize(), 2);
  V values;
  stream->readPlain(Part::Training, 0, 0, values);
  EXPECT_EQ(values, (V{1.5, -2000}));
  stream->readPlain(Part::Training, 1, 0, values);
  EXPECT_EQ(values, (V{3, 4}));
  stream->readPlain(Part::Training, 0, 1, values);
  EXPECT_EQ(values, (V{2}));

  const InputShape y = {"y", {}, kInt, 2}, x = {"x", {2}, kFloat, 0};
  EXPECT_FALSE(open({"csv", {"x.csv"}}, {x, y}));
  EXPECT_EQ(message(),
            "\"DIR/x.csv\", line 2, column label is 2, y is int below 2, from 0 to 1; the largest is 2: the axis needs "
            "3 places");
  EXPECT_FALSE(open({"csv", {"x.csv"}}, {x}));
  EXPECT_EQ(message(),
            "\"DIR/x.csv\", line 1 has 3 columns; the inputs take 2: x 2; say which are read, as in columns = (a, …)");
  EXPECT_FALSE(open({"csv", {"x.csv"}}, {{"y", {3}, kInt, 9}}));
  EXPECT_EQ(message(), "\"DIR/x.csv\", line 2, column a: 1.5 is no integer, y is int");
  write("bad.csv", "a,b,label\n1,,2\n");
  EXPECT_FALSE(open({"csv", {"bad.csv"}}, {x, y}));
  EXPECT_EQ(message(), "\"DIR/bad.csv\", line 2, column b is empty; each field is a number");
  write("signs.csv", "a,b\n1,+-2\n");
  EXPECT_FALSE(open({"csv", {"signs.csv"}}, {x}));
  EXPECT_EQ(message(), "\"DIR/signs.csv\", line 2, column b: \"+-2\" is not a number");
  write("beyond.csv", "a,b\n1e-400,1e400\n");
  EXPECT_FALSE(open({"csv", {"beyond.csv"}}, {x}));
  EXPECT_EQ(message(), "\"DIR/beyond.csv\", line 2, column b: 1e400 is beyond what a double holds");
  write("beyond.csv", "a,b\n3.4028235e38,-1e39\n");
  EXPECT_FALSE(open({"csv", {"beyond.csv"}}, {x}));
  EXPECT_EQ(message(), "\"DIR/beyond.csv\", line 2, column b: -1e39 is beyond what fp32 holds, 3.4e38; rescale the "
                       "column, or train under precision fp64");
  EXPECT_TRUE(open({"csv", {"beyond.csv"}}, {{"x", {2}, ElementType::Float64, 0}}));
  write("beyond.csv", "a,b\n-1e400m,1\n");
  EXPECT_FALSE(open({"csv", {"beyond.csv"}}, {x}));
  EXPECT_EQ(message(), "\"DIR/beyond.csv\", line 2, column a: \"-1e400m\" is not a number");
  EXPECT_FALSE(open({"csv", {"signs.csv"}}, {{"x", {int64_t(1) << 40}, kFloat, 0}})); // no memory for each column
  EXPECT_EQ(message(), "\"DIR/signs.csv\", line 1 has 2 columns; the inputs take 1099511627776: x 1099511627776");
}

// In a program of double precision inputs are doubles.
TEST_F(Data, CsvInDoubles) {
  write("small.csv", "a,b\n1e-400,3\n");
  DataSpec spec = {"csv", {"small.csv"}};
  spec.transforms = {{"normalize", {1, 2}}};
  auto stream = open(spec, {{"x", {2}, ElementType::Float64, 0}});
  V values;
  stream->readPlain(Part::Training, 0, 0, values);
  EXPECT_EQ(values, (V{-0.5, 1}));
}

// A csv file without its header line would lose a sample, and columns that are called as inputs fill no others.
TEST_F(Data, CsvHeader) {
  const InputShape y = {"y", {}, kInt, 9}, x = {"x", {2}, kFloat, 0};
  write("bare.csv", "1,2,3\n4,5,6\n");
  EXPECT_FALSE(open({"csv", {"bare.csv"}}, {x, y}));
  EXPECT_EQ(message(),
            "\"DIR/bare.csv\", line 1 holds numbers, and a csv file begins with a line of its columns' names; "
            "add one");
  for (const char *row : {"+1,2,3", "1,,3", "1e999,2,3",
                          "\xEF\xBB\xBF"
                          "1,2,3"}) {
    write("bare.csv", std::string(row) + "\n4,5,6\n");
    EXPECT_FALSE(open({"csv", {"bare.csv"}}, {x, y})) << row;
    EXPECT_NE(message().find("line 1 holds numbers"), std::string::npos) << message();
  }
  write("years.csv", "2019,2020,y\n1,2,3\n");
  EXPECT_TRUE(open({"csv", {"years.csv"}}, {x, y}));
  write("counted.csv", "0,1,2\n4,5,6\n"); // as pandas writes where there are no names
  EXPECT_TRUE(open({"csv", {"counted.csv"}}, {x, y}));
  write("words.csv", "nan,inf,y\n1,2,3\n"); // which are no numbers in a table
  EXPECT_TRUE(open({"csv", {"words.csv"}}, {x, y}));
  write("turned.csv", "y,a,b\n1,2,3\n");
  EXPECT_TRUE(open({"csv", {"turned.csv"}}, {y, x}));
  write("marked.csv", "\xEF\xBB\xBFy,a,b\n1,2,3\n"); // as spreadsheets write UTF-8
  EXPECT_FALSE(open({"csv", {"marked.csv"}}, {x, y}));
  EXPECT_NE(message().find("column y would fill x"), std::string::npos) << message();
  EXPECT_FALSE(open({"csv", {"turned.csv"}}, {x, y}));
  EXPECT_EQ(message(), "\"DIR/turned.csv\", line 1: column y would fill x, for columns fill the inputs from left to "
                       "right: x 2, y 1; name the inputs in the columns' order, or the columns in the inputs', as in "
                       "columns = (NAME, …)");
}

// Columns are found by their names: the first file's, or those that the spec names, in any order and among others.
TEST_F(Data, CsvColumnsByName) {
  const std::vector<InputShape> inputs = {{"facts", {2}, kFloat, 0}, {"bought", {}, kInt, 2}};
  write("january.csv", "age,income,bought\n40,2.5,1\n");
  write("february.csv", "income,bought,age\n3.5,0,50\n");
  auto stream = open({"csv", {"january.csv", "february.csv"}}, inputs);
  ASSERT_TRUE(stream) << message();
  V facts, bought;
  stream->readPlain(Part::Training, 1, 0, facts);
  stream->readPlain(Part::Training, 1, 1, bought);
  EXPECT_EQ(facts, (V{50, 3.5}));
  EXPECT_EQ(bought, (V{0}));
  EXPECT_EQ(describe({"csv", {"january.csv"}}, inputs, folder.string()).columns,
            (std::vector<std::string>{"age", "income", "bought"}));

  DataSpec picked = {"csv", {"wide.csv", "february.csv"}};
  picked.columns = {"income", "age", "bought"};
  write("wide.csv", "\xEF\xBB\xBFname,age,\"bought\",income\n\"Doe, \"\"J\"\"\",41,0,1.5\n");
  stream = open(picked, inputs);
  ASSERT_TRUE(stream) << message();
  stream->readPlain(Part::Training, 0, 0, facts);
  EXPECT_EQ(facts, (V{1.5, 41}));
  stream->readPlain(Part::Training, 1, 0, facts);
  EXPECT_EQ(facts, (V{3.5, 50}));

  write("march.csv", "incom,bought,age\n3.5,0,50\n");
  EXPECT_FALSE(open({"csv", {"january.csv", "march.csv"}}, inputs));
  EXPECT_EQ(message(), "\"DIR/march.csv\", line 1 has no column income, which the first file has; did you mean incom?");
  EXPECT_FALSE(open({"csv", {"january.csv", "wide.csv"}}, inputs));
  EXPECT_EQ(message(), "\"DIR/wide.csv\", line 1 has a column name, which the first file does not have; say which are "
                       "read, as in columns = (age, income, bought)");
  write("twice.csv", "income,bought,age,age\n3.5,0,50,1\n");
  picked.paths = {"twice.csv"};
  EXPECT_FALSE(open(picked, inputs));
  EXPECT_EQ(message(), "\"DIR/twice.csv\", line 1 has more than one column age; columns are found by their names");
  picked.columns = {"age", "bought"};
  EXPECT_FALSE(open(picked, inputs));
  EXPECT_EQ(message(), "columns names 2 columns; the inputs take 3: facts 2, bought 1");
  write("short.csv", "age,income,bought\n40,2.5\n");
  EXPECT_FALSE(open({"csv", {"short.csv"}}, inputs));
  EXPECT_EQ(message(), "\"DIR/short.csv\", line 2 has 2 columns; the first line names 3");
  write("semicolons.csv", "age;income;bought\n40;2,5;1\n");
  EXPECT_FALSE(open({"csv", {"semicolons.csv"}}, inputs));
  EXPECT_EQ(message(), "\"DIR/semicolons.csv\", line 1 has 1 column; the inputs take 3: facts 2, bought 1; semicolons "
                       "separate its fields, and csv takes commas");
}

// Bools as pandas writes them are 1 and 0, whatever the input.
TEST_F(Data, CsvBools) {
  write("x.csv", "a,b,c\nTrue,false,TRUE\nFalse,true,FALSE\n");
  auto stream = open({"csv", {"x.csv"}}, {{"a", {}, kBool, 0}, {"b", {}, kInt, 2}, {"c", {}, kFloat, 0}});
  ASSERT_TRUE(stream) << message();
  for (int output = 0; output < 3; ++output) {
    V first, second;
    stream->readPlain(Part::Training, 0, output, first);
    stream->readPlain(Part::Training, 1, output, second);
    EXPECT_EQ(first, (V{output == 1 ? 0.0 : 1.0}));
    EXPECT_EQ(second, (V{output == 1 ? 1.0 : 0.0}));
  }
  write("yes.csv", "a\nyes\n");
  EXPECT_FALSE(open({"csv", {"yes.csv"}}, {{"a", {}, kBool, 0}}));
  EXPECT_EQ(message(), "\"DIR/yes.csv\", line 2, column a: \"yes\" is not a number");
}

// Lines end in any of the three ways; text of two bytes a character and other files are told.
TEST_F(Data, CsvText) {
  const std::vector<InputShape> inputs = {{"x", {2}, kFloat, 0}};
  for (const std::string end : {"\r", "\n", "\r\n"}) {
    write("x.csv", "a,b" + end + "1,2" + end + "3,4");
    auto stream = open({"csv", {"x.csv"}}, inputs);
    ASSERT_TRUE(stream) << message();
    EXPECT_EQ(stream->trainSize(), 2);
    V values;
    stream->readPlain(Part::Training, 1, 0, values);
    EXPECT_EQ(values, (V{3, 4}));
  }
  std::string little, big;
  for (char c : std::string("a,b\n1,2\n3,4\n")) {
    little += {c, '\0'};
    big += {'\0', c};
  }
  for (const auto &[bytes, name] : {std::pair("\xff\xfe" + little, "UTF-16"),
                                    {"\xfe\xff" + big, "UTF-16"},
                                    {little, "UTF-16LE"},
                                    {big, "UTF-16BE"}}) {
    write("x.csv", bytes);
    EXPECT_FALSE(open({"csv", {"x.csv"}}, inputs));
    EXPECT_EQ(message(), "\"DIR/x.csv\" is text in " + std::string(name) + "; write it in UTF-8: iconv -f " + name +
                             " -t UTF-8 FILE > NEW");
  }
  write("x.csv", "PAR1" + std::string(40, '\1'));
  EXPECT_FALSE(open({"csv", {"x.csv"}}, inputs));
  EXPECT_EQ(message(), "\"DIR/x.csv\" looks like a Parquet table, and csv reads text with a sample a line");
  write("x.csv", "a,b\n1,\"2\n3,4\n");
  EXPECT_FALSE(open({"csv", {"x.csv"}}, inputs));
  EXPECT_EQ(message(), "\"DIR/x.csv\", line 2 has a quote that is not closed; a sample is one line");
}

// Numbers that are not finite are told with their sample, in either order of storage.
TEST_F(Data, NpyNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  write("c.npy", npy("<f4", "(2, 3)", bytesOfValues<float>({0, 1, 2, 3, infinity, 5})));
  write("f.npy", npy("<f4", "(2, 3)", bytesOfValues<float>({0, 1, infinity, 3, 4, 5}), true));
  const InputShape x = {"x", {3}, kFloat, 0};
  EXPECT_FALSE(open({"npy", {"c.npy"}}, {x}));
  EXPECT_EQ(message(), "\"DIR/c.npy\" has inf in sample 1 (counted from 0); replace it, or leave the sample out");
  EXPECT_FALSE(open({"npy", {"f.npy"}}, {x}));
  EXPECT_EQ(message(), "\"DIR/f.npy\" has inf in sample 0 (counted from 0); replace it, or leave the sample out");
  write("d.npy", npy("<f8", "(2, 3)", bytesOfValues<double>({0, 1, 3.4028235e38, 3, -1e39, 5})));
  EXPECT_FALSE(open({"npy", {"d.npy"}}, {x}));
  EXPECT_EQ(message(), "\"DIR/d.npy\" has a number beyond what fp32 holds, 3.4e38, in sample 1 (counted from 0); "
                       "rescale the array, or train under precision fp64");
  EXPECT_TRUE(open({"npy", {"d.npy"}}, {{"x", {3}, ElementType::Float64, 0}}));
}

// Integers that an input of 32 bits cannot hold are refused where it has no bound of its own.
TEST_F(Data, IntegersBeyond32Bits) {
  const InputShape y = {"y", {}, kInt, 0};
  write("y.csv", "y\n-2147483648\n2147483648\n");
  EXPECT_FALSE(open({"csv", {"y.csv"}}, {y}));
  EXPECT_EQ(message(), "\"DIR/y.csv\", line 3, column y is 2147483648, y is int, of 32 bits");
  const std::vector<uint32_t> tokens = {1, 0x80000000u};
  write("t.bin", std::string(reinterpret_cast<const char *>(tokens.data()), 8));
  DataSpec spec = {"tokens", {"t.bin"}};
  spec.args = {32};
  EXPECT_FALSE(open(spec, {{"t", {1}, kInt, 0}}));
  EXPECT_EQ(message(), "token 1 of \"DIR/t.bin\" is 2147483648, t is int, of 32 bits");
}

} // namespace
} // namespace echelon::runtime::test
