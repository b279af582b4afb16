// What a few steps of training left behind, and how two such traces are compared: for `verify` and tests.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace echelon {

using Tensors = std::map<std::string, std::vector<double>>; // by path

struct Trace {
  struct Step {
    std::map<std::string, double> reports; // loss, named losses, grad_norm
    Tensors gradient;                      // by parameter
    Tensors after;                         // stored tensors after the step
    bool isSkipped = false;                // then its gradients may be there or not
  };
  std::vector<Step> steps;
  std::map<std::string, double> evaluation; // the last one's row
};

/// Reads what a program of `steps` steps wrote with --log and with --dump FOLDER --dump-state.
Trace readTrace(const std::string &log, const std::string &dump, int steps);

/// The accepted difference.
constexpr double kTraceTolerance = 1e-10;

struct Worst {
  double error = 0;
  std::string where = "nothing";
  std::map<std::string, double> *each = nullptr; // the largest at each `where`, if it is asked for
  /// Also takes what is not a number.
  void see(double e, const std::string &what) {
    if (each)
      if (double &most = each->try_emplace(what, 0).first->second; !(e <= most))
        most = e;
    if (!(e <= error)) {
      error = e;
      where = what;
    }
  }
};

using Distances = std::map<std::string, double>; // by what is apart

/// Of each tensor the most of all steps, of reports the most of all: one number may be right by chance.
Distances ofAllSteps(const Distances &distances);

/// Of the model's largest gradient: what a gradient is measured against at least. One of sums that cancel is known no
/// better than what is summed up, which a GPU's kernels round in a precision of two bytes.
constexpr double kLeastGradient = 1e-3, kLeastRoundedGradient = 5e-2;

/// The largest difference between two traces. A gradient is measured against its tensor's scale, at least
/// `leastGradient` of the model's largest; an element whose gradient was ever below `known` of that measure is left out
/// of what is compared after its update (an optimizer would walk on noise). `apart`: workers of `many` that each have
/// such a tensor, of which the first is compared. `each`: the largest difference of each report and tensor, by what is
/// said of it.
Worst compareTraces(const Trace &one, const Trace &many, int64_t apart = 1, Distances *each = nullptr,
                    double known = 1e-5, double leastGradient = kLeastGradient);

} // namespace echelon
