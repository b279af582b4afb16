// What is equal in a model's text, and what is told where it is not.
#include "runtime/snapshot/Mathematics.h"
#include "runtime/snapshot/CompareMathematics.h"

#include <gtest/gtest.h>

using namespace echelon::runtime;

namespace {

const std::string kHead = "mathematics 1\n"
                          "input x ( 'batch 'feat=5 ) f32\n"
                          "param w ( 'feat=5 'hid=8 ) f32\n"
                          "line 0 m.ech:3  h = relu(dot(x, w, over = feat))\n"
                          "line 1 m.ech:4  loss mean(0.1 * h)\n"
                          "%0 = value x\n"
                          "%1 = value w\n";
const std::string kBody = "%2 = dot %0 %1 over [ 'feat ] [ 'batch 'hid=8 ] f32 @0\n"
                          "%3 = relu %2 [ 'batch 'hid=8 ] f32 @0\n"
                          "%4 = mul #0.1 %3 [ 'batch 'hid=8 ] f32 @1\n"
                          "%5 = sum_over %4 [ 'batch 'hid ] [ ] f32 @1\n"
                          "loss loss %5 @1\n";

std::string with(std::string text, const std::string &old, const std::string &other) {
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return at == std::string::npos ? text : text.replace(at, old.size(), other);
}

/// One line a difference: its kind, then both sides.
std::string told(const std::string &then, const std::string &now) {
  std::string text;
  for (const ModelDifference &difference : compareMathematics(then, now)) {
    const char *kinds[] = {"number", "site", "structure"};
    text += kinds[difference.kind];
    if (!difference.from.empty())
      text += " " + difference.what + ": " + difference.from + " -> " + difference.to;
    for (const std::string &line : difference.then)
      text += " | " + line;
    text += " =>";
    for (const std::string &line : difference.now)
      text += " | " + line;
    text += "\n";
  }
  return text;
}

TEST(Mathematics, OtherWordsForTheSame) {
  const std::string text = kHead + kBody;
  EXPECT_EQ(told(text, text), "");
  EXPECT_EQ(told(text, with(text, "dot %0 %1", "dot %1 %0")), "");
  EXPECT_EQ(told(text, with(text, "mul #0.1 %3", "mul %3 #0.1")), "");
  EXPECT_EQ(told(text, with(text, "[ 'batch 'hid=8 ]", "[ 'hid=8 'batch ]")), "");
  EXPECT_EQ(told(text, with(text, "m.ech:4  loss mean(0.1 * h)", "other.ech:40  loss mean(h / 10)")), "");
  EXPECT_EQ(told(text, with(text, "loss loss", "loss main")), "");
  // in another order, with something that nothing reads
  EXPECT_EQ(told(text, kHead + "%2 = exp %0 [ 'batch 'feat=5 ] f32\n"
                               "%3 = dot %1 %0 over [ 'feat ] [ 'batch 'hid=8 ] f32 @0\n"
                               "%4 = relu %3 [ 'batch 'hid=8 ] f32 @0\n"
                               "%5 = mul %4 #0.1 [ 'batch 'hid=8 ] f32 @1\n"
                               "%6 = sum_over %5 [ 'hid 'batch ] [ ] f32 @1\n"
                               "loss loss %6 @1\n"),
            "");
}

// Sums of sums are one sum, unless the inner one is read elsewhere, too; what is multiplied by 0 is not there.
TEST(Mathematics, ParenthesesAndZeros) {
  const std::string axes = " [ 'batch 'feat=5 ] f32\n",
                    head = "mathematics 1\ninput x ( 'batch 'feat=5 ) f32\nline 0 m.ech:3  y = a + b + c\n"
                           "%0 = value x\n%1 = exp %0" +
                           axes + "%2 = tanh %0" + axes,
                    end = "%5 = sum_over %4 [ 'batch 'feat ] [ ] f32\nloss loss %5\n";
  const std::string left = head + "%3 = add %0 %1" + axes + "%4 = add %3 %2" + axes + end;
  EXPECT_EQ(told(left, head + "%3 = add %2 %1" + axes + "%4 = add %0 %3" + axes + end), "");
  EXPECT_NE(told(left, head + "%3 = mul %2 %1" + axes + "%4 = add %0 %3" + axes + end), "");
  EXPECT_NE(told(left, left + "loss other %3\n"), "");
  const std::string two = head + "%3 = mul #0 %2" + axes + "%4 = add %0 %1" + axes + end;
  EXPECT_EQ(told(two, head + "%3 = add %0 %1" + axes + "%4 = add %3 #0" + axes + end), "");
  EXPECT_EQ(told(two, head + "%3 = mul %2 #0" + axes + "%4 = add %0 %1 %3" + axes + end), "");
  EXPECT_EQ(told(head + "%3 = mul %2 #0" + axes + "%4 = add %3 %1" + axes + end,
                 head + "%3 = exp %2" + axes + "%4 = exp %0" + axes + end),
            "");
  EXPECT_NE(told(two, head + "%3 = add %0 %1" + axes + "%4 = add %3 #1" + axes + end), "");
}

TEST(Mathematics, OtherNamesOfAxesAndInputs) {
  std::string text = kHead + kBody, other = text;
  for (const auto &[old, name] : {std::pair<std::string, std::string>{"'hid", "'hidden"}, {"'batch", "'sample"}})
    for (size_t at = 0; (at = other.find(old, at)) != std::string::npos; at += name.size())
      other.replace(at, old.size(), name);
  EXPECT_EQ(told(text, other), "");
  other = with(with(other, "input x", "input image"), "value x", "value image");
  EXPECT_EQ(told(text, other), "");
  // a parameter whose axes have changed places is another
  EXPECT_EQ(told(text, with(text, "w ( 'feat=5 'hid=8 )", "w ( 'hid=8 'feat=5 )")),
            "structure | m.ech:3  h = relu(dot(x, w, over = feat))  (value w 'feat=5 'hid=8) => | "
            "m.ech:3  h = relu(dot(x, w, over = feat))  (value w 'hid=8 'feat=5)\n");
}

// Only the line where it begins to differ, although all that follows does.
TEST(Mathematics, NumbersAndStructure) {
  const std::string text = kHead + kBody, line = " | m.ech:3  h = relu(dot(x, w, over = feat))",
                    loss = " | m.ech:4  loss mean(0.1 * h)";
  EXPECT_EQ(told(text, with(text, "#0.1", "#0.2")), "number : 0.1 -> 0.2" + loss + " =>" + loss + "\n");
  EXPECT_EQ(told(text, with(text, "= relu %2", "= gelu %2")),
            "structure" + line + "  (relu [ 'batch 'hid=8 ] f32) =>" + line + "  (gelu [ 'batch 'hid=8 ] f32)\n");
  // both
  EXPECT_EQ(told(text, with(with(text, "= relu %2", "= gelu %2"), "#0.1", "#0.2")),
            "structure" + line + "  (relu [ 'batch 'hid=8 ] f32) =>" + line +
                "  (gelu [ 'batch 'hid=8 ] f32)\nnumber : 0.1 -> 0.2" + loss + " =>" + loss + "\n");
  EXPECT_EQ(told(text, with(text, "sum_over %4", "max_over %4")).substr(0, 9), "structure");
  EXPECT_EQ(told(text, text + "loss other %3 @0\n"), "structure =>" + line + "\n");
  EXPECT_EQ(told(text + "next w %1 @0\n", text), "structure" + line + " =>\n");
}

// A number under which an operation is left out is a number.
TEST(Mathematics, NumbersThatLeaveOut) {
  const std::string loss = " | m.ech:4  loss mean(0.1 * h)", line = " | m.ech:3  h = relu(dot(x, w, over = feat))";
  const std::string text = kHead + kBody;
  const std::string one = kHead + with(with(kBody, "%4 = mul #0.1 %3 [ 'batch 'hid=8 ] f32 @1\n", ""),
                                       "%5 = sum_over %4", "%4 = sum_over %3");
  EXPECT_EQ(told(text, with(one, "loss loss %5", "loss loss %4")), "number : 0.1 -> 1" + loss + " =>" + loss + "\n");
  EXPECT_EQ(told(with(one, "loss loss %5", "loss loss %4"), text), "number : 1 -> 0.1" + loss + " =>" + loss + "\n");
  const std::string drop = with(kHead + kBody, "%3 = relu %2 [", "%3 = dropout %2 #0.3 ~dropout [");
  const std::string none = kHead + with(with(with(with(kBody, "%3 = relu %2 [ 'batch 'hid=8 ] f32 @0\n", ""),
                                                  "%4 = mul #0.1 %3", "%3 = mul #0.1 %2"),
                                             "%5 = sum_over %4", "%4 = sum_over %3"),
                                        "loss loss %5", "loss loss %4");
  EXPECT_EQ(told(drop, none), "number dropout: 0.3 -> 0" + line + " =>\n");
  EXPECT_EQ(told(none, drop), "number dropout: 0 -> 0.3 =>" + line + "\n");
  EXPECT_EQ(told(drop, with(drop, "~dropout", "~dropout_2")),
            "site dropout: dropout -> dropout_2" + line + " =>" + line + "\n");
}

// What loops carry is compared through its iterations, whatever its order.
TEST(Mathematics, Loops) {
  const std::string head = "mathematics 1\nparam w ( 'layer=4 'hid=8 ) f32\nparam v ( 'hid=8 ) f32\n"
                           "line 0 m.ech:3  a = a * w\nline 1 m.ech:4  b = b + a\n"
                           "%0 = value w\n%1 = value v\n%2 = exp %1\n";
  const std::string text = head + "%3 = carried 'layer=4 %1 [ 'hid=8 ] f32\n%4 = carried 'layer=4 %2 [ 'hid=8 ] f32\n"
                                  "%5 = position 'layer=4 %0 [ 'hid=8 ] f32\n"
                                  "%6 = mul %3 %5 [ 'hid=8 ] f32 @0\n%7 = add %4 %6 [ 'hid=8 ] f32 @1\n"
                                  "carry %3 %6\ncarry %4 %7\n%8 = after 'layer=4 %4 [ 'hid=8 ] f32\nloss loss %8 @1\n";
  const std::string other = head + "%3 = position 'layer=4 %0 [ 'hid=8 ] f32\n%4 = carried 'layer=4 %2 [ 'hid=8 ] f32\n"
                                   "%5 = carried 'layer=4 %1 [ 'hid=8 ] f32\n"
                                   "%6 = mul %3 %5 [ 'hid=8 ] f32 @0\n%7 = add %6 %4 [ 'hid=8 ] f32 @1\n"
                                   "carry %4 %7\ncarry %5 %6\n%8 = after 'layer=4 %4 [ 'hid=8 ] f32\nloss loss %8 @1\n";
  EXPECT_EQ(told(text, other), "");
  EXPECT_EQ(told(text, with(other, "mul %3 %5", "max %3 %5")),
            "structure | m.ech:3  a = a * w  (mul [ 'hid=8 ] f32) => | m.ech:3  a = a * w  (max [ 'hid=8 ] f32)\n");
  EXPECT_EQ(told(text, with(other, "carry %5 %6", "carry %5 %5")).substr(0, 9), "structure");
}

// Anyone may have written it.
TEST(Mathematics, TextThatIsNone) {
  const std::string text = kHead + kBody;
  Mathematics read;
  EXPECT_EQ(readMathematics(text, {}, read), "");
  EXPECT_EQ(readMathematics("", {}, read), "it does not say what is computed");
  EXPECT_EQ(readMathematics("param w [feat=5]\n", {}, read), "it does not say what is computed");
  EXPECT_EQ(readMathematics("mathematics 2\n", {}, read),
            "it says what is computed in form 2, which this program does not read");
  for (const char *line : {"%9 = relu %2",
                           "%6 = relu %6",
                           "%6 = relu %99999999999",
                           "%6",
                           "%6 =",
                           "%6 = relu [ 'a",
                           "%6 = relu %2 @7",
                           "line 7 x",
                           "line 2",
                           "loss",
                           "loss a",
                           "loss a %9",
                           "next a %2 @9",
                           "carry %2 %3",
                           "carry",
                           "param w",
                           "param w (",
                           "param w ( x ) f32",
                           "? x",
                           "%6 = carried",
                           "%6 = relu %2.x",
                           "%6 = relu #"})
    EXPECT_EQ(readMathematics(text + line + "\n", {}, read), "what it says of the model cannot be read from line 13 on")
        << line;
  EXPECT_EQ(told("mathematics 7\n", text),
            "structure | it says what is computed in form 7, which this program does not read =>\n");
  // Two long chains that have nothing in common, each value read twice, come to an end.
  std::string a = kHead, b = kHead;
  for (int i = 2; i < 3000; ++i) {
    const std::string last = " %" + std::to_string(i - 1), before = " %" + std::to_string(i - 2);
    a += "%" + std::to_string(i) + " = add" + last + before + "\n";
    b += "%" + std::to_string(i) + " = add" + last + " #" + std::to_string(i) + "\n";
  }
  EXPECT_NE(told(a + "loss loss %2999\n", b + "loss loss %2999\n"), "");
}

} // namespace
