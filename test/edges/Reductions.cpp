// Reductions of rows, with and without a mask.
#include "test/edges/Rows.h"

namespace echelon::edges {

static Reals one(Real x) { return {x}; }

/// A mean: the sum, and a division.
static Real meanOf(const Reals &x, Wide additions = -1) {
  return x.empty() ? Real(0) : sum(x, additions) / Real(Wide(x.size()));
}

Family reductions() {
  constexpr int64_t rows = 24, n = 8;
  Family family{"reductions",
                "  axis n = 8\n  axis three = 3\n  axis one = 1\n  axis found = 3\n",
                {{"n", n}, {"three", 3}, {"one", 1}, {"found", 3}},
                rows,
                {"mesh(dp = 2, tp = 2) { split batch over dp; split n over tp }"},
                {}};
  const Input x{"x", {"n"}, edgeRows(rows, n, 1)}, m{"m", {"n"}, edgeMasks(rows, n), Kind::Bool};
  auto add = [&](const std::string &name, const std::string &text, std::vector<std::string> axes,
                 std::function<Reals(Row &)> f, bool masked, bool slopes = true) {
    std::vector<Input> inputs{x};
    if (masked)
      inputs.push_back(m);
    family.cases.push_back({"r_" + name, text, inputs, axes, rowwise(f), true, slopes});
  };
  add("sum", "$y = sum($x, over = n)", {}, [](Row &r) { return one(sum(r.real["x"])); }, false);
  add(
      "summask", "$y = sum($x, over = n, where = $m)", {},
      [](Row &r) { return one(sum(left(r.real["x"], r.other["m"]))); }, true);
  add("mean", "$y = mean($x, over = n)", {}, [](Row &r) { return one(meanOf(r.real["x"])); }, false);
  add(
      "meanmask", "$y = mean($x, over = n, where = $m)", {},
      [](Row &r) { return one(meanOf(left(r.real["x"], r.other["m"]))); }, true);
  add("max", "$y = max($x, over = n)", {}, [](Row &r) { return one(maximum(r.real["x"])); }, false);
  add("min", "$y = min($x, over = n)", {}, [](Row &r) { return one(minimum(r.real["x"])); }, false);
  add(
      "maxmask", "$y = max($x, over = n, where = $m)", {},
      [](Row &r) {
        const Reals some = left(r.real["x"], r.other["m"]);
        return one(some.empty() ? Real(0) : maximum(some));
      },
      true);
  add(
      "minmask", "$y = min($x, over = n, where = $m)", {},
      [](Row &r) {
        const Reals some = left(r.real["x"], r.other["m"]);
        return one(some.empty() ? Real(0) : minimum(some));
      },
      true);
  add(
      "argmax", "$y = argmax($x, over = n)", {}, [](Row &r) { return one(Real(Wide(argmax(r.real["x"])))); }, false,
      false);
  add(
      "argmaxmask", "$y = argmax($x, over = n, where = $m)", {},
      [](Row &r) {
        int64_t best = -1;
        for (size_t i = 0; i < r.real["x"].size(); ++i)
          if (r.other["m"][i] && (best < 0 || r.real["x"][i].value() > r.real["x"][best].value()))
            best = int64_t(i);
        return one(Real(Wide(std::max<int64_t>(best, 0))));
      },
      true, false);
  auto running = [](const Reals &x) {
    Reals y;
    for (size_t i = 0; i < x.size(); ++i)
      y.push_back(sum(Reals(x.begin(), x.begin() + i + 1)));
    return y;
  };
  add("cumsum", "$y = cumsum($x, over = n)", {"n"}, [=](Row &r) { return running(r.real["x"]); }, false);
  add(
      "cumsummask", "$y = cumsum($x, over = n, where = $m)", {"n"},
      [=](Row &r) {
        Reals x = r.real["x"];
        for (size_t i = 0; i < x.size(); ++i)
          if (!r.other["m"][i])
            x[i] = Real(0);
        return running(x);
      },
      true);
  add(
      "top", "$y = top($x, over = n, k = 3, into = found)", {"found"},
      [](Row &r) {
        Reals y;
        std::vector<bool> taken(r.real["x"].size());
        for (int k = 0; k < 3; ++k) {
          int64_t best = -1;
          for (size_t i = 0; i < taken.size(); ++i)
            if (!taken[i] && (best < 0 || r.real["x"][i].value() > r.real["x"][best].value()))
              best = int64_t(i);
          taken[best] = true;
          y.push_back(Real(Wide(best)));
        }
        return y;
      },
      false, false);
  // what it found is read, so that a derivative goes back to its place
  add(
      "topread", "$y = $x[n = top($x, over = n, k = 3, into = found)]", {"found"},
      [](Row &r) {
        Reals y;
        std::vector<bool> taken(r.real["x"].size());
        for (int k = 0; k < 3; ++k) {
          int64_t best = -1;
          for (size_t i = 0; i < taken.size(); ++i)
            if (!taken[i] && (best < 0 || r.real["x"][i].value() > r.real["x"][best].value()))
              best = int64_t(i);
          taken[best] = true;
          y.push_back(r.real["x"][best] * Real(1));
        }
        return y;
      },
      false);
  add(
      "count", "$y = count($x, over = n) * mean($x, over = n) + size(n)", {},
      [](Row &r) { return one(Real(8) * meanOf(r.real["x"]) + Real(8)); }, false);
  // one element, and two axes
  family.cases.push_back({"r_single",
                          "$y = sum($x, over = one) + mean($x, over = one) + max($x, over = one)",
                          {{"x", {"one"}, edgeRows(rows, 1, 2)}},
                          {},
                          rowwise([](Row &r) {
                            const Real x = r.real["x"][0];
                            return one(x + x + x);
                          })});
  family.cases.push_back({"r_two",
                          "$y = sum($x, over = (three, n)) + max($x, over = (three, n))",
                          {{"x", {"three", "n"}, edgeRows(3 * rows, n, 3)}},
                          {},
                          rowwise([](Row &r) { return one(sum(r.real["x"]) + maximum(r.real["x"])); })});
  // over the batch: of each column
  auto columns = [](std::function<Real(const Reals &)> f) {
    return [f](Values &v) {
      Reals y;
      const int64_t n = v.sizes.at("n");
      for (int64_t i = 0; i < n; ++i) {
        Reals x;
        for (int64_t r = 0; r < v.rows; ++r)
          x.push_back(v.real("x")[r * n + i]);
        y.push_back(f(x));
      }
      return y;
    };
  };
  family.cases.push_back(
      {"r_batch", "$y = mean($x, over = batch)", {x}, {"n"}, columns([](const Reals &x) { return meanOf(x); }), false});
  family.cases.push_back({"r_batchmax",
                          "$y = max($x, over = batch)",
                          {x},
                          {"n"},
                          columns([](const Reals &x) { return maximum(x); }),
                          false});
  return family;
}

/// Rows of many blocks: the error does not grow with their length.
Family longSums() {
  constexpr int64_t rows = 16, n = 20000;
  Family family{"long", "  axis long = 20000\n", {{"long", n}}, rows, {"mesh(tp = 2) { split long over tp }"}, {}};
  const Input x{"x", {"long"}, edgeRows(rows, n, 4)};
  family.cases = {
      {"l_sum", "$y = sum($x, over = long)", {x}, {}, rowwise([](Row &r) {
         return one(sum(r.real["x"], kBlockedAdditions));
       })},
      {"l_mean", "$y = mean($x, over = long)", {x}, {}, rowwise([](Row &r) {
         return one(meanOf(r.real["x"], kBlockedAdditions));
       })},
  };
  return family;
}

} // namespace echelon::edges
