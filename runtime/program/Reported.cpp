#include "runtime/program/Reported.h"

namespace echelon::runtime {

std::string reportedName(const Rank &rank, const Scalar &scalar) {
  switch (scalar.kind) {
  case Scalar::Loss:
    return rank.training() ? "loss" : "eval_loss";
  case Scalar::Norm:
    return "grad_norm";
  case Scalar::NamedLoss:
  case Scalar::Metric:
    break;
  }
  return scalar.name;
}

NamedValues reported(const Rank &rank) {
  NamedValues values;
  const std::vector<Scalar> &scalars = rank.program().scalars;
  for (size_t i = 0; i < scalars.size(); ++i)
    if (rank.hasReport(int(i)) && (rank.training() || scalars[i].kind != Scalar::Norm))
      values.emplace_back(reportedName(rank, scalars[i]), rank.reported(int(i)));
  return values;
}

} // namespace echelon::runtime
