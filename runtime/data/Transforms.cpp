#include "runtime/data/Transforms.h"
#include "runtime/data/Sources.h"
#include "runtime/launch/Nearest.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <cstdio>

namespace echelon::runtime {

namespace {

bool contains(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string listed(const std::vector<std::string> &words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

bool isReal(ElementType type) { return type == ElementType::Float32 || type == ElementType::Float64; }

std::string shortNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", value);
  return text;
}

} // namespace

/// Resolves one transform.
struct Transforms::Resolver {
  const DataSpec &spec;
  const TransformSpec &transform;
  const std::vector<InputShape> &inputs;
  const std::vector<OutputShape> &outputs;
  DataError &error;
  Action action;
  TransformSpec said; // with its axes and inputs

  bool fail(const std::string &text) {
    error.text = text;
    return false;
  }

  /// "image has row and column": what there is to name.
  static std::string has(const InputShape &input) {
    return input.name + " has " +
           (input.dims.empty()   ? "no axis but the batch's"
            : input.axes.empty() ? dimsText(input.dims)
                                 : listed(input.axes));
  }

  /// The transform as a spec that names axes has it, by the last of an input's.
  std::string example(const InputShape &input, size_t count) const {
    std::string text;
    const size_t have = input.axes.size();
    for (size_t i = have - std::min(count, have); i < have; ++i)
      text += (text.empty() ? "" : ", ") + input.axes[i];
    if (transform.kind == "crop")
      text += ", pad = " + shortNumber(transform.args[0]);
    return transform.kind + "(" + text + ")";
  }

  bool checkArguments() {
    const std::vector<double> &args = transform.args;
    if (transform.kind == "flip") {
      action.kind = Action::Flip;
      return transform.axes.size() < 2 || fail("flip mirrors one axis; mirror others by flips of their own");
    }
    if (transform.kind == "crop") {
      action.kind = Action::Crop;
      const bool fine = args.size() == 1 && args[0] >= 0 && args[0] < 1 << 20 && args[0] == double(int64_t(args[0]));
      return fine || fail("crop takes pad = a whole number of places");
    }
    if (transform.kind != "normalize")
      return fail("transform " + transform.kind + " is not built");
    action.kind = Action::Normalize;
    if (args.size() % 2 != 0 || args.empty())
      return fail("normalize takes as many means as standard deviations");
    for (size_t i = args.size() / 2; i < args.size(); ++i)
      if (!(args[i] > 0))
        return fail("normalize divides by standard deviations above 0");
    return transform.axes.size() < 2 || fail("normalize takes one axis");
  }

  bool isCandidate(size_t input) const {
    return transform.inputs.empty() || contains(transform.inputs, inputs[input].name);
  }

  void say(size_t output, const std::string &axis) {
    const InputShape &input = inputs[output];
    if (!axis.empty() && !contains(said.axes, axis))
      said.axes.push_back(axis);
    if (!contains(said.inputs, input.name))
      said.inputs.push_back(input.name);
  }

  /// Acts along one of the dims of an output.
  void act(size_t output, size_t dim, size_t draw) {
    const std::vector<int64_t> &dims = outputs[output].dims;
    Axis axis = {int(output), 1, dims[dim], 1, draw};
    for (size_t i = 0; i < dims.size(); ++i)
      if (i != dim)
        (i < dim ? axis.outer : axis.inner) *= dims[i];
    action.axes.push_back(axis);
    action.draws = std::max(action.draws, draw + 1);
    say(output, dim < inputs[output].axes.size() ? inputs[output].axes[dim] : "");
  }

  /// Acts on all numbers of an output alike.
  void actOnAll(size_t output) {
    action.axes.push_back({int(output), 1, 1, countOf(outputs[output].dims), 0});
    say(output, "");
  }

  /// Without axes: the source knows which of its dimensions are a picture's, or there is no choice.
  bool resolveBare() {
    const OutputShape &picture = outputs[0];
    const size_t means = transform.args.size() / 2;
    const bool isNormalize = action.kind == Action::Normalize;
    const InputShape &first = inputs[0];
    if (isNormalize && means == 1)
      return resolveForAll();
    if (picture.row >= 0 && isCandidate(0) && transform.inputs.size() < 2)
      return resolvePicture(picture, means);
    if (const int only = isNormalize ? onlyVector() : -1; only >= 0) {
      act(size_t(only), 0, 0);
      return outputs[size_t(only)].dims[0] == int64_t(means) ||
             failMeans(inputs[size_t(only)].axes[0], outputs[size_t(only)].dims[0]);
    }
    if (!isNormalize) {
      const bool flips = action.kind == Action::Flip;
      return fail(
          std::string(flips ? "flip mirrors the axis that it names" : "crop cuts along the axes that it names") +
          (first.axes.empty() ? "" : ", as in " + example(first, flips ? 1 : 2)) + "; " + has(first));
    }
    std::string fitting; // an axis of as many places
    for (const InputShape &input : inputs)
      for (size_t i = 0; i < input.axes.size() && isReal(input.type); ++i)
        if (input.dims[i] == int64_t(means) && fitting.empty())
          fitting = input.axes[i];
    return fail("normalize has " + std::to_string(means) + " means, and acts along the axis that it names" +
                (fitting.empty() ? "" : ", as in normalize(" + fitting + ", mean = …, std = …)") + "; " + has(first) +
                (fitting.empty() ? ", and no input of floats has an axis of " + std::to_string(means) +
                                       " places; one mean and one std are for all"
                                 : ""));
  }

  /// The only input of floats, where it has one axis and there is nothing to choose; else -1.
  int onlyVector() const {
    int only = -1;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (isCandidate(i) && isReal(inputs[i].type)) {
        if (only >= 0)
          return -1;
        only = int(i);
      }
    return only >= 0 && inputs[size_t(only)].axes.size() == 1 ? only : -1;
  }

  bool failMeans(const std::string &axis, int64_t places) {
    return fail("normalize has " + std::to_string(transform.args.size() / 2) + " means, and " + axis + " has " +
                std::to_string(places) + (places == 1 ? " place" : " places"));
  }

  bool resolvePicture(const OutputShape &picture, size_t means) {
    if (action.kind == Action::Flip) {
      act(0, size_t(picture.column), 0);
    } else if (action.kind == Action::Crop) {
      act(0, size_t(picture.row), 0);
      act(0, size_t(picture.column), 1);
      for (const Axis &axis : action.axes)
        if (!checkPad(axis.size, axis.draw == 0 ? "a picture's rows" : "a picture's columns"))
          return false;
    } else if (const int64_t channels = picture.channel < 0 ? 1 : picture.dims[size_t(picture.channel)];
               channels != int64_t(means)) {
      return fail("normalize has " + std::to_string(means) + " means, and a picture of " + spec.kind + " has " +
                  std::to_string(channels) + (channels == 1 ? " channel" : " channels"));
    } else {
      act(0, size_t(picture.channel), 0);
    }
    return true;
  }

  bool checkPad(int64_t size, const std::string &axis) {
    return transform.args[0] < double(size) ||
           fail("crop by up to " + shortNumber(transform.args[0]) + " places may leave nothing of " + axis +
                ", of which there are " + std::to_string(size));
  }

  bool checkReal(size_t input) {
    return isReal(inputs[input].type) ||
           fail("normalize acts on floats; " + inputs[input].name + " is " + nameOf(inputs[input].type));
  }

  /// normalize by one mean: the inputs that it names, a picture, or the only input of floats.
  bool resolveForAll() {
    std::vector<size_t> real;
    std::vector<std::string> names;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!isCandidate(i))
        continue;
      if (!transform.inputs.empty() && !checkReal(i))
        return false;
      if (isReal(inputs[i].type)) {
        real.push_back(i);
        names.push_back(inputs[i].name);
      }
    }
    if (real.empty() || (transform.inputs.empty() && outputs[0].row >= 0 && !checkReal(0)))
      return checkReal(0);
    if (transform.inputs.empty() && outputs[0].row >= 0)
      real = {0};
    else if (transform.inputs.empty() && real.size() > 1)
      return fail("normalize may mean " + listed(names) +
                  "; say on which it acts, as in normalize(mean = …, std = …, on = " + names[0] + ")");
    for (size_t i : real)
      actOnAll(i);
    return true;
  }

  bool resolveAxes() {
    for (size_t draw = 0; draw < transform.axes.size(); ++draw)
      if (!resolveAxis(transform.axes[draw], draw))
        return false;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!transform.inputs.empty() && isCandidate(i) && !contains(said.inputs, inputs[i].name))
        return fail(transform.kind + " is to act on " + inputs[i].name + ", which does not have " +
                    (transform.axes.size() == 1 ? "the axis " : "the axes ") + listed(transform.axes) + "; " +
                    has(inputs[i]));
    return true;
  }

  bool resolveAxis(const std::string &name, size_t draw) {
    const int64_t means = int64_t(transform.args.size() / 2);
    std::vector<std::string> known;
    bool found = false, inIntegers = false;
    for (size_t i = 0; i < inputs.size(); ++i)
      for (size_t dim = 0; isCandidate(i) && dim < inputs[i].axes.size(); ++dim) {
        if (!contains(known, inputs[i].axes[dim]))
          known.push_back(inputs[i].axes[dim]);
        if (inputs[i].axes[dim] != name)
          continue;
        const int64_t size = inputs[i].dims[dim];
        if (action.kind == Action::Normalize && !isReal(inputs[i].type)) {
          if (!transform.inputs.empty())
            return checkReal(i);
          inIntegers = true;
          continue;
        }
        if (action.kind == Action::Normalize && means != 1 && means != size)
          return failMeans(name, size);
        if (action.kind == Action::Crop && !checkPad(size, name))
          return false;
        found = true;
        act(i, dim, draw);
      }
    if (found)
      return checkPositions(name);
    if (inIntegers)
      return fail("normalize acts on floats, and no input of floats has the axis " + name);
    const std::string near = nearest(name, known);
    return fail((transform.inputs.empty() ? "no input" : "none of the inputs named") + std::string(" has the axis ") +
                name + " within a sample" +
                (!near.empty()   ? "; did you mean " + near + "?"
                 : known.empty() ? ""
                                 : "; there is " + listed(known)));
  }

  /// Numbers that are places along a moved axis would have to move with it, and do not.
  bool checkPositions(const std::string &axis) {
    if (action.kind == Action::Normalize || !transform.inputs.empty())
      return true;
    for (const InputShape &input : inputs)
      if (input.belowAxis == axis)
        return fail(input.name + " is int below " + axis + ", places along the axis that " + transform.kind +
                    " moves, and would stay as it is; where it holds no such places, name the inputs that move, as in "
                    "on = " +
                    said.inputs[0]);
    return true;
  }

  bool resolve() {
    said = {transform.kind, transform.args};
    action.args = transform.args;
    if (!checkArguments())
      return false;
    for (const std::string &name : transform.inputs)
      if (std::none_of(inputs.begin(), inputs.end(), [&](const InputShape &input) { return input.name == name; }))
        return fail(transform.kind + " is to act on " + name + ", which the data does not fill");
    return transform.axes.empty() ? resolveBare() : resolveAxes();
  }
};

bool Transforms::resolve(const DataSpec &spec, const std::vector<InputShape> &inputs,
                         const std::vector<OutputShape> &outputs, DataError &error) {
  std::vector<InputShape> filled = inputs;
  for (size_t i = filled.size(); i < outputs.size(); ++i) // whatever the source gives
    filled.push_back({"it", outputs[i].dims, outputs[i].type});
  for (size_t t = 0; t < spec.transforms.size(); ++t) {
    Resolver resolver = {spec, spec.transforms[t], filled, outputs, error, {}, {}};
    if (!resolver.resolve()) {
      error.transform = int(t);
      return false;
    }
    actions.push_back(std::move(resolver.action));
    specs.push_back(std::move(resolver.said));
  }
  return true;
}

namespace {

void mirror(double *values, int64_t size, int64_t inner) {
  for (int64_t low = 0, high = size - 1; low < high; ++low, --high)
    std::swap_ranges(values + low * inner, values + (low + 1) * inner, values + high * inner);
}

/// Takes what lies `by` places further along; after the end there are zeros.
void shift(double *values, int64_t size, int64_t inner, int64_t by) {
  double *end = values + size * inner;
  const int64_t kept = std::max<int64_t>(0, size - std::abs(by)) * inner;
  if (by >= 0) {
    std::copy(end - kept, end, values);
    std::fill(values + kept, end, 0.0);
  } else {
    std::copy_backward(values, values + kept, end);
    std::fill(values, end - kept, 0.0);
  }
}

void normalize(const std::vector<double> &args, int64_t inner, std::vector<double> &values) {
  const size_t means = args.size() / 2;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t c = means == 1 ? 0 : i / size_t(inner) % means;
    values[i] = (values[i] - args[c]) / args[means + c];
  }
}

} // namespace

void Transforms::apply(uint64_t seed, int64_t index, bool random, int output, std::vector<double> &values) const {
  for (size_t t = 0; t < actions.size(); ++t) {
    const Action &action = actions[t];
    // Every transform has its own stream; a place in the training stream has its own values of it, for all outputs.
    const RandomKey key = {seed, path_hash("data.transform") + t, 0};
    for (const Axis &axis : action.axes) {
      if (axis.output != output)
        continue;
      if (action.kind == Action::Normalize) {
        normalize(action.args, axis.inner, values);
        continue;
      }
      const double drawn = random ? uniform_at(key, uint64_t(action.draws) * uint64_t(index) + axis.draw) : 0;
      const int64_t pad = action.kind == Action::Crop ? int64_t(action.args[0]) : 0;
      if (!random || (action.kind == Action::Flip && drawn < 0.5))
        continue;
      for (int64_t o = 0; o < axis.outer; ++o) {
        double *start = values.data() + o * axis.size * axis.inner;
        if (action.kind == Action::Flip)
          mirror(start, axis.size, axis.inner);
        else
          shift(start, axis.size, axis.inner, int64_t(drawn * double(2 * pad + 1)) - pad);
      }
    }
  }
}

} // namespace echelon::runtime
