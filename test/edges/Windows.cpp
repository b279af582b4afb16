// Convolutions and pooling: sums of products over windows, and the largest of a window.
#include "test/edges/Rows.h"

#include <array>

namespace echelon::edges {

namespace {
struct Picture {
  int64_t channels, height, width;
};
/// T m T^T of sizes m: (3, 3). Winograd's F(2 x 2, 3 x 3) computes y0 = d0 w0 + d1 w1 + d2 w2 as (d0 - d2) w0 +
/// (d1 + d2) (w0 + w1 + w2) / 2 + (d2 - d1) (w0 - w1 + w2) / 2, and the other result of a tile mirrored. So d1 meets
/// all weights, and d2 (or d0) one of them twice; and so do weights' derivatives the differences and sums of d.
std::array<Wide, 9> spread(const std::array<Wide, 9> &m) {
  constexpr int t[3][3] = {{1, 1, 2}, {1, 1, 1}, {2, 1, 1}};
  std::array<Wide, 9> all{};
  for (int a = 0; a < 9; ++a)
    for (int b = 0; b < 9; ++b)
      all[a] += t[a / 3][b / 3] * t[a % 3][b % 3] * std::fabs(m[b]);
  return all;
}
/// y[r, o, i, j] of x[r, c, ...] and w[o, c, kh, kw]. Windows of 3 x 3 with steps of 1 may be computed by Winograd's
/// products: 4 additions to bring weights there, 2 for pixels, a product, 4 additions back.
Reals convolved(int64_t rows, const Reals &x, const Reals &w, Picture in, int64_t to, int64_t stride) {
  constexpr Wide kTransforms = 4 + 2 + 1 + 4;
  Reals y;
  const int64_t high = (in.height - 1) / stride + 1, wide = (in.width - 1) / stride + 1;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < to; ++o)
      for (int64_t i = 0; i < high; ++i)
        for (int64_t j = 0; j < wide; ++j) {
          Wide value = 0, size = 0, winograd = 0;
          std::vector<Real::Edge> edges;
          for (int64_t c = 0; c < in.channels; ++c) {
            std::array<Wide, 9> pixels{}, weights{};
            std::array<int64_t, 9> at;
            for (int64_t k = 0; k < 9; ++k) {
              const int64_t h = i * stride + k / 3 - 1, v = j * stride + k % 3 - 1;
              at[k] = h < 0 || h >= in.height || v < 0 || v >= in.width
                          ? -1
                          : ((r * in.channels + c) * in.height + h) * in.width + v;
              pixels[k] = at[k] < 0 ? 0 : x[at[k]].value();
              weights[k] = w[(o * in.channels + c) * 9 + k].value();
            }
            const std::array<Wide, 9> manyPixels = spread(pixels), manyWeights = spread(weights);
            for (int64_t k = 0; k < 9; ++k) {
              if (at[k] < 0)
                continue;
              value += pixels[k] * weights[k];
              size += std::fabs(pixels[k] * weights[k]);
              winograd += std::fabs(pixels[k]) * manyWeights[k];
              const Wide more = stride == 1 ? kTransforms * u : 0;
              edges.push_back({x[at[k]], weights[k], more * manyWeights[k]});
              edges.push_back({w[(o * in.channels + c) * 9 + k], pixels[k], more * manyPixels[k]});
            }
          }
          const Wide direct = 9 * in.channels * u * size, transformed = (in.channels + kTransforms) * u * winograd;
          y.push_back(Real::result(value, stride == 1 ? std::max(direct, transformed) : direct, edges));
        }
  return y;
}
Reals pooled(int64_t rows, const Reals &x, Picture in, int64_t size, int64_t stride, int64_t pad, bool largest) {
  Reals y;
  const int64_t high = (in.height + 2 * pad - size) / stride + 1, wide = (in.width + 2 * pad - size) / stride + 1;
  for (int64_t r = 0; r < rows * in.channels; ++r)
    for (int64_t i = 0; i < high; ++i)
      for (int64_t j = 0; j < wide; ++j) {
        Reals some;
        for (int64_t p = 0; p < size; ++p)
          for (int64_t q = 0; q < size; ++q) {
            const int64_t h = i * stride + p - pad, k = j * stride + q - pad;
            if (h >= 0 && h < in.height && k >= 0 && k < in.width)
              some.push_back(x[(r * in.height + h) * in.width + k]);
          }
        y.push_back(largest ? maximum(some) : sum(some) / Real(Wide(size * size)));
      }
  return y;
}
} // namespace

Family windows() {
  constexpr int64_t rows = 8;
  Family family{"windows",
                "  axis few = 3\n  axis many = 16\n  axis to = 16\n  axis height = 8\n  axis width = 8\n  axis kh = "
                "3\n  axis kw = 3\n"
                "  axis rows4 = 4\n  axis cols4 = 4\n",
                {{"few", 3}, {"many", 16}, {"to", 16}, {"height", 8}, {"width", 8}, {"rows4", 4}, {"cols4", 4}},
                rows,
                {"mesh(tp = 2) { split to, many over tp }"},
                {}};
  auto pictures = [](int64_t channels, unsigned seed, double largest) {
    return edgeRows(rows, channels * 64, seed, largest);
  };
  auto add = [&](const std::string &name, int64_t channels, const std::string &axis, const std::string &text,
                 int64_t stride, std::vector<double> values) {
    const std::vector<std::string> axes = stride == 2 ? std::vector<std::string>{"to", "rows4", "cols4"}
                                                      : std::vector<std::string>{"to", "height", "width"};
    family.cases.push_back(
        {"w_" + name,
         "param $w[to, " + axis + ", kh, kw] ~ normal(0.3)\n" + text,
         {{"x", {axis, "height", "width"}, values}},
         axes,
         [=](Values &v) { return convolved(v.rows, v.real("x"), v.param("w"), {channels, 8, 8}, 16, stride); }});
  };
  const std::string same = "$y = conv($x, $w, over = few, window = (height, width), pad = same)",
                    wide = "$y = conv($x, $w, over = many, window = (height, width), pad = same)",
                    step = "$y = conv($x, $w, over = few, window = (height, width), stride = 2, pad = 1)[height -> "
                           "rows4, width -> cols4]";
  add("few", 3, "few", same, 1, pictures(3, 51, 1e9));
  add("many", 16, "many", wide, 1, pictures(16, 52, 1e9));
  add("step", 3, "few", step, 2, pictures(3, 53, 1e9));
  add("plain", 16, "many", wide, 1, ordinary(rows * 16 * 64, 54));
  // one pixel above all others: what does not see it is not touched by it
  std::vector<double> spot = ordinary(rows * 16 * 64, 55, 1e-3);
  for (int64_t r = 0; r < rows; ++r)
    spot[(r * 16 + r) * 64 + 27] = 1e6;
  add("spot", 16, "many", wide, 1, asFloats(spot));
  family.cases.push_back({"w_conv3x3",
                          "$y = nn.conv3x3($x, many, to) as $c",
                          {{"x", {"many", "height", "width"}, pictures(16, 56, 1e9)}},
                          {"to", "height", "width"},
                          [](Values &v) { return convolved(v.rows, v.real("x"), v.param("c.w"), {16, 8, 8}, 16, 1); }});
  family.cases.push_back({"w_conv3x3step",
                          "$z = nn.conv3x3($x, few, to, stride = 2, height = height, width = width) as $c\n$y = "
                          "$z[height -> rows4, width -> cols4]",
                          {{"x", {"few", "height", "width"}, pictures(3, 59, 1e9)}},
                          {"to", "rows4", "cols4"},
                          [](Values &v) { return convolved(v.rows, v.real("x"), v.param("c.w"), {3, 8, 8}, 16, 2); }});
  for (bool largest : {true, false}) {
    const std::string f = largest ? "maxpool" : "avgpool";
    family.cases.push_back(
        {"w_" + f,
         "$y = " + f + "($x, window = (height, width), size = 2, stride = 2)[height -> rows4, width -> cols4]",
         {{"x", {"few", "height", "width"}, edgeRows(rows * 3, 64, 57)}},
         {"few", "rows4", "cols4"},
         [=](Values &v) { return pooled(v.rows, v.real("x"), {3, 8, 8}, 2, 2, 0, largest); }});
    family.cases.push_back({"w_" + f + "pad",
                            "$y = " + f + "($x, window = (height, width), size = 3, stride = 1, pad = 1)",
                            {{"x", {"few", "height", "width"}, edgeRows(rows * 3, 64, 58)}},
                            {"few", "height", "width"},
                            [=](Values &v) { return pooled(v.rows, v.real("x"), {3, 8, 8}, 3, 1, 1, largest); }});
  }
  return family;
}

} // namespace echelon::edges
