// Contractions: n products and their sum, in any order.
#include "test/edges/Rows.h"

namespace echelon::edges {

/// y[r, i, j] = sum over k of a(r, i, k) b(r, k, j).
static Reals products(int64_t rows, int64_t is, int64_t ks, int64_t js,
                      const std::function<Real(int64_t, int64_t, int64_t)> &a,
                      const std::function<Real(int64_t, int64_t, int64_t)> &b) {
  Reals y;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < is; ++i)
      for (int64_t j = 0; j < js; ++j) {
        Reals p, q;
        for (int64_t k = 0; k < ks; ++k)
          p.push_back(a(r, i, k)), q.push_back(b(r, k, j));
        y.push_back(dot(p, q));
      }
  return y;
}

Family contractions() {
  constexpr int64_t rows = 24, n = 8, m = 4, j = 6, deep = 600;
  Family family{"contractions",
                "  axis n = 8\n  axis m = 4\n  axis j = 6\n  axis deep = 600\n",
                {{"n", n}, {"m", m}, {"j", j}, {"deep", deep}},
                rows,
                {"mesh(dp = 2, tp = 2) { split j over dp; split n, deep over tp }"},
                {}};
  auto withWeights = [=](Values &v, int64_t ks) {
    const Reals &x = v.real("x"), &w = v.param("w");
    return products(
        v.rows, 1, ks, j, [&](int64_t r, int64_t, int64_t k) { return x[r * ks + k]; },
        [&](int64_t, int64_t k, int64_t c) { return w[k * j + c]; });
  };
  for (auto [name, largest] : {std::pair("small", 1e9), std::pair("large", 1e30)})
    family.cases.push_back({std::string("c_") + name,
                            "param $w[n, j] ~ normal(0.5)\n$y = dot($x, $w, over = n)",
                            {{"x", {"n"}, edgeRows(rows, n, 31, largest)}},
                            {"j"},
                            [=](Values &v) { return withWeights(v, n); }});
  family.cases.push_back({"c_tiny",
                          "param $w[n, j] ~ normal(0.5)\n$y = dot($x, $w, over = n)",
                          {{"x", {"n"}, ordinary(rows * n, 32, 1e-30)}},
                          {"j"},
                          [=](Values &v) { return withWeights(v, n); }});
  family.cases.push_back({"c_deep",
                          "param $w[deep, j] ~ normal(0.5)\n$y = dot($x, $w, over = deep)",
                          {{"x", {"deep"}, edgeRows(rows, deep, 33, 1e9)}},
                          {"j"},
                          [=](Values &v) { return withWeights(v, deep); }});
  family.cases.push_back({"c_batched",
                          "$y = dot($x, $z, over = n)",
                          {{"x", {"m", "n"}, edgeRows(rows * m, n, 34)}, {"z", {"n", "j"}, ordinary(rows * n * j, 35)}},
                          {"m", "j"},
                          [=](Values &v) {
                            return products(
                                v.rows, m, n, j,
                                [&](int64_t r, int64_t i, int64_t k) { return v.real("x")[(r * m + i) * n + k]; },
                                [&](int64_t r, int64_t k, int64_t c) { return v.real("z")[(r * n + k) * j + c]; });
                          }});
  family.cases.push_back({"c_two",
                          "param $w[m, n, j] ~ normal(0.5)\n$y = dot($x, $w, over = (m, n))",
                          {{"x", {"m", "n"}, edgeRows(rows * m, n, 36, 1e9)}},
                          {"j"},
                          [=](Values &v) { return withWeights(v, m * n); }});
  family.cases.push_back({"c_inner",
                          "$y = dot($x, $z, over = n)",
                          {{"x", {"n"}, edgeRows(rows, n, 37)}, {"z", {"n"}, ordinary(rows * n, 38)}},
                          {},
                          rowwise([](Row &r) { return Reals{dot(r.real["x"], r.real["z"])}; })});
  family.cases.push_back({"c_outer",
                          "$y = outer($x * $z)",
                          {{"x", {"n"}, edgeRows(rows, n, 39)}, {"z", {"m"}, ordinary(rows * m, 40)}},
                          {"n", "m"},
                          rowwise([](Row &r) {
                            Reals y;
                            for (Real a : r.real["x"])
                              for (Real b : r.real["z"])
                                y.push_back(a * b);
                            return y;
                          })});
  return family;
}

} // namespace echelon::edges
