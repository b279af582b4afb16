// Norms: large means with small deviations, sizes whose squares fp32 does not hold, constant rows.
#include "test/edges/Rows.h"

namespace echelon::edges {

Family norms() {
  constexpr int64_t rows = 24, n = 16;
  Family family{"norms",
                "  axis n = 16\n  axis channel = 4\n  axis one = 1\n",
                {{"n", n}, {"channel", 4}, {"one", 1}},
                rows,
                {"mesh(dp = 2, tp = 2) { split batch over dp; split n over tp }"},
                {}};
  std::vector<double> values = edgeRows(rows, n, 21);
  for (int64_t i = 0; i < n; ++i) { // means of 1e4 to 1e6 with deviations that fp32 holds
    const double deviation[] = {1e-2, 0.1, 1};
    for (int k = 0; k < 3; ++k)
      values[k * n + i] = float(1e4 * std::pow(10, k) + deviation[k] * std::sin(i * 1.7 + k));
  }
  const Input x{"x", {"n"}, values};
  auto add = [&](const std::string &name, const std::string &text, std::vector<std::string> axes,
                 std::function<Reals(Row &)> f) { family.cases.push_back({"n_" + name, text, {x}, axes, rowwise(f)}); };
  add("layer", "$y = normalize($x, over = n)", {"n"}, [](Row &r) { return normalize(r.real["x"]).y; });
  add("rms", "$y = normalize($x, over = n, rms = true)", {"n"}, [](Row &r) { return normalize(r.real["x"], true).y; });
  add("mean", "$y = normalize_mean($x, over = n)", {}, [](Row &r) { return Reals{normalize(r.real["x"]).mean}; });
  std::vector<double> small = values; // whose squares fp32 holds
  for (double &v : small)
    v = std::fabs(v) > 1e18 ? v * 1e-15 : v;
  family.cases.push_back(
      {"n_variance", "$y = normalize_variance($x, over = n)", {{"x", {"n"}, asFloats(small)}}, {}, rowwise([](Row &r) {
         return Reals{normalize(r.real["x"]).variance};
       })});
  family.cases.push_back({"n_layernorm", "$y = nn.layernorm($x, n) as $layer", {x}, {"n"}, [](Values &v) {
                            Reals y;
                            const Reals &gamma = v.param("layer.gamma"), &beta = v.param("layer.beta");
                            for (int64_t r = 0; r < v.rows; ++r) {
                              const auto first = v.real("x").begin() + r * 16;
                              const Reals z = normalize(Reals(first, first + 16)).y;
                              for (int i = 0; i < 16; ++i)
                                y.push_back(z[i] * gamma[i] + beta[i]);
                            }
                            return y;
                          }});
  family.cases.push_back({"n_rmsnorm", "$y = nn.rmsnorm($x, n) as $rms", {x}, {"n"}, [](Values &v) {
                            Reals y;
                            const Reals &gamma = v.param("rms.gamma");
                            for (int64_t r = 0; r < v.rows; ++r) {
                              const auto first = v.real("x").begin() + r * 16;
                              const Reals z = normalize(Reals(first, first + 16), true).y;
                              for (int i = 0; i < 16; ++i)
                                y.push_back(z[i] * gamma[i]);
                            }
                            return y;
                          }});
  family.cases.push_back({"n_single",
                          "$y = normalize($x, over = one)",
                          {{"x", {"one"}, edgeRows(rows, 1, 22)}},
                          {"one"},
                          rowwise([](Row &r) { return normalize(r.real["x"]).y; })});
  // of all samples: of each column
  auto columns = [](std::function<Reals(const Norm &)> f, bool perSample) {
    return [=](Values &v) {
      Reals y(perSample ? v.rows * n : n);
      for (int64_t i = 0; i < n; ++i) {
        Reals x;
        for (int64_t r = 0; r < v.rows; ++r)
          x.push_back(v.real("x")[r * n + i]);
        const Reals some = f(normalize(x));
        for (size_t r = 0; r < some.size(); ++r)
          y[r * n + i] = some[r];
      }
      return y;
    };
  };
  const Input all{"x", {"n"}, asFloats(small)};
  family.cases.push_back({"n_batchwise",
                          "if training {\n  $y = normalize($x, over = batch, local = true)\n} else {\n  $y = $x\n}",
                          {all},
                          {"n"},
                          columns([](const Norm &norm) { return norm.y; }, true)});
  family.cases.push_back({"n_batchmean",
                          "if training {\n  $y = normalize_mean($x, over = batch, local = true)\n} else {\n  $y = "
                          "mean($x, over = batch)\n}",
                          {all},
                          {"n"},
                          columns([](const Norm &norm) { return Reals{norm.mean}; }, false),
                          false});
  family.cases.push_back({"n_batchvariance",
                          "if training {\n  $y = normalize_variance($x, over = batch, local = true) * count($x, over = "
                          "batch, local = true)\n"
                          "} else {\n  $y = mean($x, over = batch)\n}",
                          {{"x", {"n"}, ordinary(rows * n, 23, 1, 1e4)}},
                          {"n"},
                          columns([](const Norm &norm) { return Reals{norm.variance * Real(Wide(rows))}; }, false),
                          false});
  // batch norm, over the batch and n: channels with offsets, sizes and a constant one
  std::vector<double> channels;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < 4; ++c)
      for (int64_t i = 0; i < n; ++i) {
        const double z = std::sin(double(r * 31 + c * 7 + i * 3 + r * i));
        channels.push_back(c == 0 ? 1e5 + z : c == 1 ? 1e-19 * z : c == 2 ? 1e19 * z : 12345.678);
      }
  auto batch = [](Values &v, const std::string &name) {
    Reals y(v.real("x").size());
    Reals means, variances;
    const Reals &gamma = v.param(name + ".gamma"), &beta = v.param(name + ".beta");
    for (int c = 0; c < 4; ++c) {
      Reals x;
      std::vector<size_t> at;
      for (int64_t r = 0; r < v.rows; ++r)
        for (int i = 0; i < 16; ++i)
          at.push_back((r * 4 + c) * 16 + i), x.push_back(v.real("x")[at.back()]);
      Reals z;
      if (v.training) {
        z = normalize(x).y;
      } else {
        const Real mean = Real(v.starts.at(name + ".running_mean")[c]),
                   variance = Real(v.starts.at(name + ".running_var")[c]);
        const Real scale = rsqrt(variance + Real(1e-5L));
        for (Real each : x)
          z.push_back((each - mean) * scale);
      }
      for (size_t i = 0; i < z.size(); ++i)
        y[at[i]] = z[i] * gamma[c] + beta[c];
    }
    return y;
  };
  for (bool local : {false, true}) {
    const std::string name = local ? "local" : "batch";
    Case c{"n_" + name,
           "$y = nn.batchnorm($x, channel" + std::string(local ? ", local = true" : "") + ") as $" + name,
           {{"x", {"channel", "n"}, asFloats(channels)}},
           {"channel", "n"},
           [=](Values &v) { return batch(v, name); }};
    c.isEvaluated = true;
    family.cases.push_back(c);
  }
  return family;
}

} // namespace echelon::edges
