// What `with …` does to samples: mirror and crop in training, normalize always. An action is of axes, and touches every
// input that has them, all of a sample's inputs with one draw.
#pragma once

#include "runtime/data/DataSource.h"

namespace echelon::runtime {

class Transforms {
public:
  /// What the transforms of a spec come to for the inputs that the source's outputs fill; false, with `error` set,
  /// where that is nothing or not plain.
  bool resolve(const DataSpec &spec, const std::vector<InputShape> &inputs, const std::vector<OutputShape> &outputs,
               DataError &error);

  /// Transforms one output of the sample at place `index` of the training stream. `random`: mirrors and crops, too.
  void apply(uint64_t seed, int64_t index, bool random, int output, std::vector<double> &values) const;

  /// The transforms with the axes and the inputs that they act on, whether the spec says them or the source knows them.
  const std::vector<TransformSpec> &resolved() const { return specs; }

private:
  /// One axis of one output: its places are `inner` numbers apart, and that `outer` times over.
  struct Axis {
    int output;
    int64_t outer, size, inner;
    size_t draw; // which of the action's random numbers moves it
  };
  struct Action {
    enum Kind { Flip, Crop, Normalize } kind;
    std::vector<double> args;
    size_t draws = 1;
    std::vector<Axis> axes;
  };
  struct Resolver;

  std::vector<Action> actions;
  std::vector<TransformSpec> specs;
};

} // namespace echelon::runtime
