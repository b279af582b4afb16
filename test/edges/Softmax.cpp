// The softmax family and cross-entropy: offsets change nothing, and what lies far below is nothing.
#include "test/edges/Rows.h"

namespace echelon::edges {

Family softmaxes() {
  constexpr int64_t rows = 24, n = 8;
  Family family{"softmax",
                "  axis n = 8\n  axis one = 1\n  axis three = 3\n",
                {{"n", n}, {"one", 1}, {"three", 3}},
                rows,
                {"mesh(dp = 2, tp = 2) { split batch over dp; split n over tp }"},
                {}};
  const Input x{"x", {"n"}, edgeRows(rows, n, 11)}, m{"m", {"n"}, edgeMasks(rows, n), Kind::Bool},
      label{"label", {}, integers(rows, n, 12), Kind::Int, "n"};
  auto add = [&](const std::string &name, const std::string &text, std::vector<Input> inputs,
                 std::vector<std::string> axes, std::function<Reals(Row &)> f) {
    family.cases.push_back({"s_" + name, text, inputs, axes, rowwise(f)});
  };
  auto maskedLog = [](Row &r) {
    const std::vector<bool> mask = maskOf(r.other["m"]);
    Reals y(r.real["x"].size(), Real(0));
    if (std::find(mask.begin(), mask.end(), true) == mask.end())
      return y;
    const Reals some = logSoftmax(r.real["x"], mask);
    for (size_t i = 0; i < y.size(); ++i)
      if (mask[i])
        y[i] = some[i];
    return y;
  };
  add("softmax", "$y = softmax($x, over = n)", {x}, {"n"}, [](Row &r) { return softmax(r.real["x"]); });
  add("softmaxmask", "$y = softmax($x, over = n, where = $m)", {x, m}, {"n"},
      [](Row &r) { return softmax(r.real["x"], maskOf(r.other["m"])); });
  add("softmaxwhere", "$y = softmax(where($m, $x, -1e9), over = n)", {{"x", {"n"}, ordinary(rows * n, 13, 3)}, m},
      {"n"},
      [](Row &r) { // where nothing is allowed, all are: x is lost beside 1e9, and has no derivative
        const std::vector<bool> mask = maskOf(r.other["m"]);
        if (std::find(mask.begin(), mask.end(), true) == mask.end())
          return softmax(Reals(r.real["x"].size(), Real(-1e9)));
        return softmax(r.real["x"], mask);
      });
  add("log", "$y = log_softmax($x, over = n)", {x}, {"n"}, [](Row &r) { return logSoftmax(r.real["x"]); });
  add("logmask", "$y = where($m, log_softmax($x, over = n, where = $m), 0)", {x, m}, {"n"}, maskedLog);
  add("lse", "$y = logsumexp($x, over = n)", {x}, {}, [](Row &r) { return Reals{logSumExp(r.real["x"])}; });
  add("lsemask", "$y = logsumexp($x, over = n, where = $m)", {x, m}, {}, [](Row &r) {
    const std::vector<bool> mask = maskOf(r.other["m"]);
    const bool any = std::find(mask.begin(), mask.end(), true) != mask.end();
    return Reals{any ? logSumExp(r.real["x"], mask) : Real(0)};
  });
  add("ce", "$y = cross_entropy($x, $label, over = n)", {x, label}, {},
      [](Row &r) { return Reals{crossEntropy(r.real["x"], size_t(r.other["label"][0]))}; });
  add("cewhere", "$y = cross_entropy(where($m, $x, -1e9), $label, over = n)",
      {{"x", {"n"}, ordinary(rows * n, 14, 3)}, {"m", {"n"}, integers(rows * n, 2, 15), Kind::Bool}, label}, {},
      [](Row &r) {
        Reals x = r.real["x"];
        for (size_t i = 0; i < x.size(); ++i)
          if (!r.other["m"][i])
            x[i] = Real(-1e9);
        return Reals{crossEntropy(x, size_t(r.other["label"][0]))};
      });
  std::vector<double> targets = ordinary(rows * n, 16);
  for (double &t : targets)
    t = std::fabs(t);
  for (int64_t i = 0; i < n; ++i)
    targets[i] = i == 3, targets[n + i] = 0; // one, and none
  add("cedist", "$y = cross_entropy($x, $t, over = n)", {x, {"t", {"n"}, asFloats(targets)}}, {},
      [](Row &r) { return Reals{crossEntropy(r.real["x"], r.real["t"])}; });
  // the forms in which the same is written
  add("cepick", "$y = -log_softmax($x, over = n)[n = $label]", {x, label}, {},
      [](Row &r) { return Reals{crossEntropy(r.real["x"], size_t(r.other["label"][0]))}; });
  add("cesum", "$y = -sum(log_softmax($x, over = n) * $t, over = n)", {x, {"t", {"n"}, asFloats(targets)}}, {},
      [](Row &r) { return Reals{-dot(logSoftmax(r.real["x"]), r.real["t"])}; });
  add("single", "$y = softmax($x, over = one) + log_softmax($x, over = one) + logsumexp($x, over = one)[+ one]",
      {{"x", {"one"}, edgeRows(rows, 1, 17)}}, {"one"},
      [](Row &r) { return Reals{softmax(r.real["x"])[0] + logSoftmax(r.real["x"])[0] + logSumExp(r.real["x"])}; });
  add("two", "$y = softmax($x, over = (three, n))", {{"x", {"three", "n"}, edgeRows(3 * rows, n, 18)}}, {"three", "n"},
      [](Row &r) { return softmax(r.real["x"]); });
  add("slow", "$y = softmax($x, over = three)", {{"x", {"three", "n"}, edgeRows(3 * rows, n, 19)}}, {"three", "n"},
      [](Row &r) {
        Reals y(24);
        for (int i = 0; i < 8; ++i) {
          const Reals p = softmax({r.real["x"][i], r.real["x"][8 + i], r.real["x"][16 + i]});
          for (int k = 0; k < 3; ++k)
            y[8 * k + i] = p[k];
        }
        return y;
      });
  return family;
}

} // namespace echelon::edges
