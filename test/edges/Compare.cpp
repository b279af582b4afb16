// What a case gave beside what it should have.
#include "test/edges/Program.h"

#include "tools/driver/verify/Npy.h"

#include <algorithm>
#include <cfloat>
#include <cstdio>
#include <filesystem>

namespace echelon::edges {

namespace fs = std::filesystem;

const Reals &Values::param(const std::string &path) {
  Reals &x = used[path];
  if (x.empty())
    for (double v : starts.at(path))
      x.push_back(Real(v));
  return x;
}

namespace {

struct Judge {
  Tally &tally;
  std::ostream &out;
  Wide factor; // times the bounds
  std::string where;
  bool shows;
  int told = 0;

  void see(const std::string &what, double got, Wide want, Wide bound) {
    ++tally.compared;
    const Wide room = factor * bound + kTiny, top = Wide(FLT_MAX) * (1 + u);
    bool good;
    if (std::isnan(want))
      good = std::isnan(got);
    else if (std::fabs(want) - room > top || std::isinf(want)) // beyond fp32
      good = std::isinf(got) && (got > 0) == (want > 0);
    else if (std::fabs(want) + room > top && std::isinf(got)) // as near as that
      good = true;
    else
      good = std::fabs(got - want) <= room;
    if (std::isfinite(want) && std::fabs(want) <= top) {
      tally.loose += room > std::fabs(want) / 10 && room > 1e-6L;
      if (std::isfinite(got) && good)
        tally.worst = std::max<Wide>(tally.worst, std::fabs(got - want) / room);
    }
    if (good)
      return;
    ++tally.wrong;
    if (++told > 8 && !shows)
      return;
    char text[200];
    std::snprintf(text, sizeof(text), "got %.9g, wanted %.9Lg, bound %.3Lg", got, want, room);
    out << where << " " << what << ": " << text << "\n";
  }
  void tensors(const std::string &what, const std::vector<double> &got, const Reals &want, bool slopes) {
    if (got.size() != want.size()) {
      ++tally.wrong;
      out << where << " " << what << ": " << got.size() << " values, wanted " << want.size() << "\n";
      return;
    }
    told = 0;
    for (size_t i = 0; i < got.size(); ++i)
      see(what + "[" + std::to_string(i) + "]", got[i], slopes ? want[i].slope() : want[i].value(),
          slopes ? want[i].slopeError() : want[i].error());
    if (told > 8 && !shows)
      out << where << " " << what << ": " << told - 8 << " more\n";
  }
};

std::vector<double> inRows(const Family &family, const Case &c) {
  std::vector<double> weights;
  for (int64_t i = 0; i < product(family, c.axes) * (c.isPerSample ? family.rows : 1); ++i)
    weights.push_back(weightOf(i));
  if (!c.isPerSample) // of each element the largest of all samples
    for (int64_t row = 1, n = weights.size(); row < family.rows; ++row)
      for (int64_t i = 0; i < n; ++i)
        weights[i] = std::max(weights[i], weightOf(row * n + i));
  return weights;
}

} // namespace

void compare(const Family &family, const Case &c, const Ran &ran, Wide factor, const std::string &where, bool shows,
             Tally &tally, std::ostream &out) {
  Judge judge{tally, out, factor, where, shows};
  const std::string after = ran.dump + "/step-000001/after/", prefix = c.name + "_";
  auto valuesFor = [&] {
    Values v;
    v.rows = family.rows;
    v.sizes = family.sizes;
    for (const Input &in : c.inputs)
      for (int64_t i = 0; i < family.rows * product(family, in.axes); ++i)
        if (in.kind == Kind::Real)
          v.reals[in.name].push_back(Real(valueOf(in, i)));
        else
          v.others[in.name].push_back(valueOf(in, i));
    for (const auto &file : fs::directory_iterator(ran.dump + "/start"))
      if (const std::string path = file.path().stem().string(); path.rfind(prefix, 0) == 0)
        v.starts[path.substr(prefix.size())] = readNpy(file.path().string());
    return v;
  };
  forget();
  Values v = valuesFor();
  const std::vector<double> got = readNpy(after + prefix + "y_out.npy");
  v.measured["y"] = got;
  const Reals want = c.reference(v);
  judge.tensors("y", got, want, false);
  const std::vector<double> weights = inRows(family, c);
  auto total = [&](const Reals &values) {
    Reals exact;
    for (double w : weights)
      exact.push_back(Real(w));
    return dot(values, exact);
  };
  if (c.hasDerivative && want.size() == weights.size()) {
    const Real loss = total(want);
    auto reported = ran.step.find(prefix + "loss");
    judge.see("loss", reported != ran.step.end() && reported->is_number() ? reported->get<double>() : NAN, loss.value(),
              loss.error() + u * std::fabs(loss.value()));
    Reals losses = want;
    std::vector<double> factors = weights;
    if (c.ownLoss)
      losses.push_back(c.ownLoss(v)), factors.push_back(1);
    derive(losses, factors);
    for (auto &[name, x] : v.reals)
      judge.tensors("d " + name, readNpy(after + "gradient." + prefix + name + "_d.npy"), x, true);
    for (auto &[path, x] : v.used)
      judge.tensors("d " + path, readNpy(after + "gradient." + prefix + path + ".npy"), x, true);
  }
  if (c.isEvaluated) { // after the step: parameters have moved
    forget();
    Values held = valuesFor();
    held.training = false;
    for (auto &[path, x] : held.starts)
      x = readNpy(after + prefix + path + ".npy");
    for (auto &[name, x] : held.reals)
      if (auto moved = held.starts.find(name + "_d"); moved != held.starts.end())
        for (size_t i = 0; i < x.size(); ++i)
          x[i] = x[i] + Real(moved->second[i]);
    const Real metric = total(c.reference(held));
    auto reported = ran.evaluation.find(prefix + "metric");
    judge.see("in evaluation",
              reported != ran.evaluation.end() && reported->is_number() ? reported->get<double>() : NAN, metric.value(),
              metric.error() + u * std::fabs(metric.value()));
  }
}

} // namespace echelon::edges
