// The meaning of each operation without a region.
#include "runtime/random/Philox.h"
#include "test/interpret/Walk.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace echelon::ech;
using namespace echelon::interpret;

namespace {
constexpr double kPi = 3.14159265358979323846;
constexpr double kEpsilon = 1e-5; // of norms

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double geluGrad(double x) {
  return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-x * x / 2) / std::sqrt(2 * kPi);
}
double geluTanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x))); }
double geluTanhGrad(double x) {
  double c = std::sqrt(2 / kPi), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double apply(Function f, const double *x, bool toInteger) {
  double a = x[0], b = x[1];
  switch (f) {
  case Function::Add:
    return a + b;
  case Function::Sub:
    return a - b;
  case Function::Mul:
    return a * b;
  case Function::Div:
    return a / b;
  case Function::Pow:
    return std::pow(a, b);
  case Function::Neg:
    return -a;
  case Function::Exp:
    return std::exp(a);
  case Function::Log:
    return std::log(a);
  case Function::Sqrt:
    return std::sqrt(a);
  case Function::Rsqrt:
    return 1 / std::sqrt(a);
  case Function::Sin:
    return std::sin(a);
  case Function::Cos:
    return std::cos(a);
  case Function::Tanh:
    return std::tanh(a);
  case Function::Erf:
    return std::erf(a);
  case Function::Sigmoid:
    return sigmoid(a);
  case Function::Relu:
    return a > 0 ? a : 0;
  case Function::Gelu:
    return gelu(a);
  case Function::GeluTanh:
    return geluTanh(a);
  case Function::Silu:
    return a * sigmoid(a);
  case Function::Abs:
    return std::fabs(a);
  case Function::Floor:
    return std::floor(a);
  case Function::Mod:
    return a - b * std::floor(a / b);
  case Function::Max:
    return a >= b ? a : b;
  case Function::Min:
    return a <= b ? a : b;
  case Function::Eq:
    return a == b;
  case Function::Ne:
    return a != b;
  case Function::Lt:
    return a < b;
  case Function::Le:
    return a <= b;
  case Function::Gt:
    return a > b;
  case Function::Ge:
    return a >= b;
  case Function::And:
    return a != 0 && b != 0;
  case Function::Or:
    return a != 0 || b != 0;
  case Function::Not:
    return a == 0;
  case Function::Select:
    return a != 0 ? b : x[2];
  case Function::Cast:
    return toInteger ? std::trunc(a) : a;
  case Function::StopGradient:
    return a;
  case Function::Sign:
    return a > 0 ? 1 : a < 0 ? -1 : 0;
  case Function::GeluGrad:
    return geluGrad(a);
  case Function::GeluTanhGrad:
    return geluTanhGrad(a);
  case Function::SiluGrad:
    return sigmoid(a) * (1 + a * (1 - sigmoid(a)));
  }
  return 0;
}

Array empty(Value result, Machine &machine) { return Array(machine.shape(result)); }

/// The array without some axes.
Array shrunk(const Array &x, ArrayAttr over, double fill) {
  Array y;
  for (size_t i = 0; i < x.axes.size(); ++i)
    if (!has(over, x.axes[i])) {
      y.axes.push_back(x.axes[i]);
      y.sizes.push_back(x.sizes[i]);
    }
  int64_t n = 1;
  for (int64_t size : y.sizes)
    n *= size;
  y.values.assign(n, fill);
  return y;
}
Array sumOver(const Array &x, ArrayAttr over) {
  Array y = shrunk(x, over, 0);
  Walk walk = walkOver({&x, &y});
  walk.run([&] { y.values[walk.at(1)] += x.values[walk.at(0)]; });
  return y;
}
Array maxOver(const Array &x, ArrayAttr over) {
  Array y = shrunk(x, over, -std::numeric_limits<double>::infinity());
  Walk walk = walkOver({&x, &y});
  walk.run([&] { y.values[walk.at(1)] = std::max(y.values[walk.at(1)], x.values[walk.at(0)]); });
  return y;
}
Array argmaxOver(const Array &x, ArrayAttr over) {
  Array best = shrunk(x, over, -std::numeric_limits<double>::infinity()), y = shrunk(x, over, 0);
  Walk walk = walkOver({&x, &best});
  std::string axis = cast<StringAttr>(over[0]).getValue().str();
  walk.run([&] {
    double &b = best.values[walk.at(1)], v = x.values[walk.at(0)], i = walk.coordinate(axis);
    double &at = y.values[walk.at(1)];
    if (v > b || (v == b && i < at)) {
      b = v;
      at = i;
    }
  });
  return y;
}
template <typename F> Array combine(const Array &like, llvm::ArrayRef<const Array *> inputs, F f) {
  Array y = like;
  SmallVector<const Array *> all{&y};
  llvm::append_range(all, inputs);
  Walk walk = walkOver(all);
  std::vector<double> x(inputs.size() + 3, 0);
  walk.run([&] {
    for (size_t i = 0; i < inputs.size(); ++i)
      x[i] = inputs[i]->values[walk.at(i + 1)];
    y.values[walk.at(0)] = f(x.data());
  });
  return y;
}
Array logSumExp(const Array &x, ArrayAttr over) {
  Array m = maxOver(x, over);
  Array e = combine(x, {&x, &m}, [](double *v) { return std::exp(v[0] - v[1]); });
  Array s = sumOver(e, over);
  return combine(m, {&m, &s}, [](double *v) { return v[0] + std::log(v[1]); });
}
int64_t countOf(const Array &x, ArrayAttr over) {
  int64_t n = 1;
  for (auto name : over.getAsRange<StringAttr>())
    n *= x.sizeOf(name);
  return n;
}

/// Along the axis: copy between a whole and its part that starts at `start`.
void copyPart(Array &to, const Array &from, StringRef axis, int64_t start, bool partIsTo, bool gone) {
  const Array &part = partIsTo ? to : from, &whole = partIsTo ? from : to;
  Walk walk = walkOver({&part}); // positions of the part
  int64_t stride = 1;
  std::vector<int64_t> strides(whole.axes.size());
  for (size_t i = whole.axes.size(); i-- > 0; stride *= whole.sizes[i])
    strides[i] = stride;
  walk.run([&] {
    int64_t place = 0;
    for (size_t i = 0; i < whole.axes.size(); ++i)
      place += strides[i] *
               (whole.axes[i] == axis ? start + (gone ? 0 : walk.coordinate(axis)) : walk.coordinate(whole.axes[i]));
    (partIsTo ? to.values[walk.at(0)] : to.values[place]) = partIsTo ? from.values[place] : from.values[walk.at(0)];
  });
}

int64_t placeIn(const Array &x, llvm::function_ref<int64_t(StringRef)> coordinate) {
  int64_t place = 0;
  for (size_t i = 0; i < x.axes.size(); ++i) {
    int64_t c = coordinate(x.axes[i]);
    if (c < 0 || c >= x.sizes[i])
      return -1;
    place = place * x.sizes[i] + c;
  }
  return place;
}

/// A walk over y's axes and further (axis, size) pairs.
Walk walkWith(const Array &y, llvm::ArrayRef<std::pair<std::string, int64_t>> more) {
  std::vector<std::string> axes = y.axes;
  std::vector<int64_t> sizes = y.sizes;
  for (auto &[axis, size] : more) {
    axes.push_back(axis);
    sizes.push_back(size);
  }
  Walk walk(axes, sizes);
  walk.add(y);
  return walk;
}

/// All three of a convolution's operations visit (place in x, place in w, place in y) once each.
template <typename Op, typename Visit> void conv(Op op, const Array &x, const Array &w, const Array &y, Visit visit) {
  SmallVector<std::pair<std::string, int64_t>> more;
  for (auto name : op.getOver().template getAsRange<StringAttr>())
    more.push_back({name.str(), w.sizeOf(name)});
  SmallVector<StringRef> window = strings(op.getWindow()), kernel = strings(op.getKernel());
  for (StringRef k : kernel)
    more.push_back({k.str(), w.sizeOf(k)});
  Walk walk = walkWith(y, more);
  walk.run([&] {
    int64_t inX = placeIn(x, [&](StringRef axis) {
      auto *at = llvm::find(window, axis);
      if (at == window.end())
        return walk.coordinate(axis);
      size_t i = at - window.begin();
      return walk.coordinate(axis) * op.getStride()[i] + walk.coordinate(kernel[i]) - op.getPadLow()[i];
    });
    if (inX >= 0)
      visit(inX, placeIn(w, [&](StringRef axis) { return walk.coordinate(axis); }), walk.at(0));
  });
}

template <typename Op, typename Visit> void pool(Op op, const Array &x, const Array &y, Visit visit) {
  SmallVector<StringRef> window = strings(op.getWindow());
  SmallVector<std::pair<std::string, int64_t>> more;
  for (auto [axis, size] : llvm::zip(window, op.getSize()))
    more.push_back({"in " + axis.str(), size});
  Walk walk = walkWith(y, more);
  walk.run([&] {
    int64_t inX = placeIn(x, [&](StringRef axis) {
      auto *at = llvm::find(window, axis);
      if (at == window.end())
        return walk.coordinate(axis);
      size_t i = at - window.begin();
      return walk.coordinate(axis) * op.getStride()[i] + walk.coordinate("in " + axis.str()) - op.getPad()[i];
    });
    if (inX >= 0)
      visit(inX, walk.at(0));
  });
}

/// Scores, and from them the weights, of attention: over q's axes but key, and past.
template <typename Op> Array scores(Op op, const Array &q, const Array &k, const Array *mask, const Array *bias) {
  Array s;
  auto take = [&](const Array &x) {
    for (size_t i = 0; i < x.axes.size(); ++i)
      if (x.axes[i] != op.getKey() && !llvm::is_contained(s.axes, x.axes[i])) {
        s.axes.push_back(x.axes[i]);
        s.sizes.push_back(x.sizes[i]);
      }
  };
  take(q);
  take(k);
  int64_t n = 1;
  for (int64_t size : s.sizes)
    n *= size;
  s.values.assign(n, 0);
  Walk walk = walkOver({&s, &q, &k});
  walk.run([&] { s.values[walk.at(0)] += q.values[walk.at(1)] * k.values[walk.at(2)]; });
  SmallVector<const Array *> all{&s};
  if (bias)
    all.push_back(bias);
  if (mask)
    all.push_back(mask);
  Walk finish = walkOver(all);
  double scale = op.getScale().convertToDouble();
  finish.run([&] {
    double &v = s.values[finish.at(0)];
    v *= scale;
    if (bias)
      v += bias->values[finish.at(1)];
    bool off = mask && mask->values[finish.at(bias ? 2 : 1)] == 0;
    off |= op.getCausal() && finish.coordinate(op.getPast()) > finish.coordinate(op.getQuery());
    if (off)
      v = -std::numeric_limits<double>::infinity();
  });
  return s;
}

} // namespace

double echelon::interpret::randomAt(RandomOp op, ArrayRef<Loop> loops, StringRef batchAxis, uint64_t seed, int64_t step,
                                    llvm::function_ref<int64_t(StringRef)> coordinate) {
  uint64_t index = 0;
  int64_t pass = 0, passes = 1, sample = 0, others = 1;
  for (const Loop &loop : loops) {
    if (loop.time) {
      pass = loop.position;
      passes = loop.count;
    } else {
      index = index * loop.count + loop.position;
      others *= loop.count;
    }
  }
  Tensor logical = tensor(op.getResult());
  for (const Axis &axis : logical.getAxes()) {
    int64_t at = coordinate(axis.name), size = axis.size;
    if (axis.name == batchAxis && step < 0) {
      sample = pass * size + at;
      continue;
    }
    others *= size;
    if (axis.name == batchAxis) { // micro batches are parts of the global batch
      at += pass * size;
      size *= passes;
    }
    index = index * size + at;
  }
  index += sample * others; // of an evaluation
  namespace rt = echelon::runtime;
  rt::RandomKey key{seed, rt::path_hash(op.getSite().str()), static_cast<uint64_t>(step)};
  double a = op.getA().convertToDouble(), b = op.getB().convertToDouble();
  if (op.getDistribution() == Distribution::Constant)
    return a;
  if (op.getDistribution() == Distribution::Uniform)
    return a + (b - a) * rt::uniform_at(key, index);
  return a + b * rt::normal_at(key, index);
}

double echelon::interpret::scalarOf(ScalarOp op, double learningRate, int64_t step) {
  return op.getName() == "learning_rate"     ? learningRate
         : op.getName() == "bias_correction" ? 1 - std::pow(op.getBeta().convertToDouble(), double(step + 1))
                                             : double(step);
}

//===- arrays
//-----------------------------------------------------------------------------------------------------------===//

Array::Array(Tensor type) {
  for (const Axis &axis : type.getAxes()) {
    axes.push_back(axis.name.str());
    sizes.push_back(axis.size);
  }
  values.assign(type.count(), 0);
}
int64_t Array::sizeOf(StringRef axis) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] == axis)
      return sizes[i];
  return 1;
}
Array Array::inOrder(ArrayRef<std::string> order) const {
  Array y;
  for (const std::string &axis : order) {
    y.axes.push_back(axis);
    y.sizes.push_back(sizeOf(axis));
  }
  y.values.assign(values.size(), 0);
  Walk walk = walkOver({&y, this});
  walk.run([&] { y.values[walk.at(0)] = values[walk.at(1)]; });
  return y;
}

std::vector<Array> Machine::other(Operation *op, ArrayRef<Array>) {
  llvm::report_fatal_error(llvm::Twine("the interpreter does not know ") + op->getName().getStringRef());
}

//===- operations
//-------------------------------------------------------------------------------------------------------===//

std::vector<Array> echelon::interpret::compute(Operation *op, ArrayRef<Array> in, Machine &machine) {
  auto arrange = [&](const Array &x, unsigned result = 0) {
    return x.inOrder(empty(op->getResult(result), machine).axes);
  };
  auto one = [](Array x) { return std::vector<Array>{std::move(x)}; };
  return llvm::TypeSwitch<Operation *, std::vector<Array>>(op)
      .Case([&](ConstantOp o) {
        Array y = empty(o.getResult(), machine);
        y.values.assign(y.values.size(), o.getValue().convertToDouble());
        return one(y);
      })
      .Case([&](CountOp o) {
        Array y(tensor(o.getResult()));
        y.values[0] = 1;
        for (int64_t size : o.getSizes())
          y.values[0] *= size;
        return one(y);
      })
      .Case([&](ScalarOp o) {
        Array y(tensor(o.getResult()));
        y.values[0] = scalarOf(o, machine.learningRate, machine.step);
        if (o.getName() == "samples") {
          y.values[0] = 0;
          for (double v : machine.values.at("valid").values)
            y.values[0] += v;
        }
        return one(y);
      })
      .Case([&](IndexOp o) {
        Array y = empty(o.getResult(), machine);
        for (size_t i = 0; i < y.values.size(); ++i)
          y.values[i] = machine.origin(o.getResult(), o.getAxis()) + static_cast<int64_t>(i);
        return one(y);
      })
      .Case([&](PositionOp o) {
        Array y(tensor(o.getResult()));
        for (const Loop &loop : machine.loops)
          if (loop.axis == o.getAxis())
            y.values[0] = loop.position;
        return one(y);
      })
      .Case([&](RandomOp o) {
        Array y = empty(o.getResult(), machine);
        Walk walk = walkOver({&y});
        walk.run([&] {
          y.values[walk.at(0)] =
              randomAt(o, machine.loops, machine.batchAxis, machine.seed, machine.step,
                       [&](StringRef axis) { return machine.origin(o.getResult(), axis) + walk.coordinate(axis); });
        });
        return one(y);
      })
      .Case([&](MapOp o) {
        SmallVector<const Array *> inputs;
        for (const Array &x : in)
          inputs.push_back(&x);
        bool integer = !tensor(o.getResult()).isFloat();
        return one(combine(empty(o.getResult(), machine), inputs,
                           [&](double *x) { return apply(o.getFunction(), x, integer); }));
      })
      .Case([&](ExpandOp o) {
        return one(combine(empty(o.getResult(), machine), {&in[0]}, [](double *x) { return x[0]; }));
      })
      .Case([&](DotOp o) {
        Array y = empty(o.getResult(), machine);
        Walk walk = walkOver({&in[0], &in[1], &y});
        walk.run([&] { y.values[walk.at(2)] += in[0].values[walk.at(0)] * in[1].values[walk.at(1)]; });
        return one(y);
      })
      .Case([&](ReduceOp o) {
        if (o.getKind() == Reduction::Sum)
          return one(arrange(sumOver(in[0], o.getOver())));
        if (o.getKind() == Reduction::Max)
          return one(arrange(maxOver(in[0], o.getOver())));
        auto negate = [](double *x) { return -x[0]; };
        Array y = maxOver(combine(in[0], {&in[0]}, negate), o.getOver());
        return one(arrange(combine(y, {&y}, negate)));
      })
      .Case([&](ArgMaxOp o) { return one(arrange(argmaxOver(in[0], o.getOver()))); })
      .Case([&](SoftmaxOp o) {
        Array lse = logSumExp(in[0], o.getOver());
        return one(arrange(combine(in[0], {&in[0], &lse}, [](double *x) { return std::exp(x[0] - x[1]); })));
      })
      .Case([&](LogSumExpOp o) { return one(arrange(logSumExp(in[0], o.getOver()))); })
      .Case([&](CrossEntropyOp o) {
        Array lse = logSumExp(in[0], o.getOver()), loss = shrunk(in[0], o.getOver(), 0);
        StringRef over = cast<StringAttr>(o.getOver()[0]).getValue();
        bool distribution = llvm::is_contained(in[1].axes, over);
        Walk walk = walkOver({&in[0], &in[1], &lse, &loss});
        walk.run([&] {
          double label = in[1].values[walk.at(1)];
          double p = distribution ? label : label == walk.coordinate(over);
          if (p != 0)
            loss.values[walk.at(3)] += p * (lse.values[walk.at(2)] - in[0].values[walk.at(0)]);
        });
        return std::vector<Array>{arrange(loss), arrange(lse, 1)};
      })
      .Case([&](NormalizeOp o) {
        double n = countOf(in[0], o.getOver());
        Array mean = sumOver(in[0], o.getOver());
        for (double &v : mean.values)
          v = o.getRms() ? 0 : v / n;
        Array square = combine(in[0], {&in[0], &mean}, [](double *x) { return (x[0] - x[1]) * (x[0] - x[1]); });
        Array variance = sumOver(square, o.getOver());
        for (double &v : variance.values)
          v /= n;
        Array rstd = combine(variance, {&variance}, [](double *x) { return 1 / std::sqrt(x[0] + kEpsilon); });
        Array y = combine(in[0], {&in[0], &mean, &rstd}, [](double *x) { return (x[0] - x[1]) * x[2]; });
        return std::vector<Array>{arrange(y), arrange(rstd, 1), arrange(mean, 2), arrange(variance, 3)};
      })
      .Case([&](NormalizeGradOp o) {
        const Array &d = in[0], &y = in[1], &rstd = in[2];
        double n = countOf(y, o.getOver());
        Array mean = sumOver(d, o.getOver());
        Array product = combine(y, {&d, &y}, [](double *x) { return x[0] * x[1]; });
        Array along = sumOver(product, o.getOver());
        bool rms = o.getRms();
        return one(arrange(combine(y, {&d, &y, &rstd, &mean, &along},
                                   [&](double *x) { return x[2] * (x[0] - (rms ? 0 : x[3] / n) - x[1] * x[4] / n); })));
      })
      .Case([&](CumSumOp o) {
        std::string axis = cast<StringAttr>(o.getOver()[0]).getValue().str();
        std::vector<std::string> order{axis}; // slowest: then each slice adds the one before it
        for (const std::string &a : in[0].axes)
          if (a != axis)
            order.push_back(a);
        Array y = in[0].inOrder(order);
        int64_t n = y.sizes[0], row = y.values.size() / n;
        for (int64_t k = 1; k < n; ++k)
          for (int64_t j = 0; j < row; ++j) {
            int64_t to = o.getReverse() ? n - 1 - k : k, from = o.getReverse() ? to + 1 : to - 1;
            y.values[to * row + j] += y.values[from * row + j];
          }
        return one(arrange(y));
      })
      .Case([&](TopOp o) {
        Array y = empty(o.getResult(), machine), x = in[0];
        for (int64_t k = 0; k < y.sizeOf(o.getInto()); ++k) {
          Array best = argmaxOver(x, o.getOver());
          copyPart(y, best, o.getInto(), k, /*partIsTo=*/false, /*gone=*/true);
          std::string over = cast<StringAttr>(o.getOver()[0]).getValue().str();
          Walk walk = walkOver({&x, &best});
          walk.run([&] {
            if (best.values[walk.at(1)] == walk.coordinate(over))
              x.values[walk.at(0)] = -std::numeric_limits<double>::infinity();
          });
        }
        return one(y);
      })
      .Case([&](GlobalNormOp o) {
        Array y(tensor(o.getResult()));
        for (const Array &x : in)
          for (double v : x.values)
            y.values[0] += v * v;
        y.values[0] = std::sqrt(y.values[0]);
        return one(y);
      })
      .Case([&](GatherOp o) {
        Array y = empty(o.getResult(), machine);
        SmallVector<const Array *> all{&y};
        for (const Array &x : in.drop_front())
          all.push_back(&x);
        Walk walk = walkOver(all);
        SmallVector<StringRef> gathered = strings(o.getAxes());
        walk.run([&] {
          int64_t at = placeIn(in[0], [&](StringRef axis) -> int64_t {
            auto *i = llvm::find(gathered, axis);
            if (i == gathered.end())
              return walk.coordinate(axis);
            size_t k = i - gathered.begin() + 1;
            return all[k]->values[walk.at(k)] - machine.origin(o.getTable(), axis);
          });
          y.values[walk.at(0)] = at < 0 ? 0 : in[0].values[at]; // rows that another rank holds
        });
        return one(y);
      })
      .Case([&](ScatterAddOp o) {
        Array y = empty(o.getResult(), machine);
        SmallVector<const Array *> all;
        for (const Array &x : in)
          all.push_back(&x);
        Walk walk = walkOver(all);
        SmallVector<StringRef> gathered = strings(o.getAxes());
        walk.run([&] {
          int64_t at = placeIn(y, [&](StringRef axis) -> int64_t {
            auto *i = llvm::find(gathered, axis);
            if (i == gathered.end())
              return walk.coordinate(axis);
            size_t k = i - gathered.begin() + 1;
            return all[k]->values[walk.at(k)] - machine.origin(o.getResult(), axis);
          });
          if (at >= 0)
            y.values[at] += in[0].values[walk.at(0)];
        });
        return one(y);
      })
      .Case([&](PickOp o) {
        Array y = empty(o.getResult(), machine);
        copyPart(y, in[0], o.getAxis(), o.getPosition(), /*partIsTo=*/true, /*gone=*/true);
        return one(y);
      })
      .Case([&](PlaceOp o) {
        Array y = empty(o.getResult(), machine);
        copyPart(y, in[0], o.getAxis(), o.getPosition(), /*partIsTo=*/false, /*gone=*/true);
        return one(y);
      })
      .Case([&](SliceOp o) {
        Array y = empty(o.getResult(), machine);
        copyPart(y, in[0], o.getAxis(), o.getStart(), /*partIsTo=*/true, /*gone=*/false);
        return one(y);
      })
      .Case([&](PadOp o) {
        Array y = empty(o.getResult(), machine);
        copyPart(y, in[0], o.getAxis(), o.getStart(), /*partIsTo=*/false, /*gone=*/false);
        return one(y);
      })
      .Case([&](RelabelOp o) {
        Array y = empty(o.getResult(), machine);
        Walk walk = walkOver({&y});
        walk.run([&] {
          int64_t at = placeIn(in[0], [&](StringRef axis) -> int64_t {
            for (auto [from, to] : llvm::zip(o.getFrom().getAsRange<ArrayAttr>(), o.getTo().getAsRange<ArrayAttr>())) {
              if (!has(from, axis))
                continue;
              int64_t position = 0;
              for (auto name : to.getAsRange<StringAttr>())
                position = position * y.sizeOf(name) + walk.coordinate(name);
              SmallVector<StringRef> names = strings(from);
              for (size_t i = names.size(); i-- > 0;) {
                if (names[i] == axis)
                  return position % in[0].sizeOf(names[i]);
                position /= in[0].sizeOf(names[i]);
              }
            }
            return walk.coordinate(axis);
          });
          y.values[walk.at(0)] = in[0].values[at];
        });
        return one(y);
      })
      .Case([&](ConcatOp o) {
        Array y = empty(o.getResult(), machine);
        int64_t start = 0;
        for (const Array &x : in) {
          copyPart(y, x, o.getAxis(), start, /*partIsTo=*/false, /*gone=*/false);
          start += x.sizeOf(o.getAxis());
        }
        return one(y);
      })
      .Case([&](ConvOp o) {
        Array y = empty(o.getResult(), machine);
        conv(o, in[0], in[1], y,
             [&](int64_t x, int64_t w, int64_t at) { y.values[at] += in[0].values[x] * in[1].values[w]; });
        return one(y);
      })
      .Case([&](ConvGradXOp o) {
        Array dx = empty(o.getResult(), machine);
        conv(o, dx, in[1], in[0],
             [&](int64_t x, int64_t w, int64_t at) { dx.values[x] += in[0].values[at] * in[1].values[w]; });
        return one(dx);
      })
      .Case([&](ConvGradWOp o) {
        Array dw = empty(o.getResult(), machine);
        conv(o, in[1], dw, in[0],
             [&](int64_t x, int64_t w, int64_t at) { dw.values[w] += in[0].values[at] * in[1].values[x]; });
        return one(dw);
      })
      .Case([&](PoolOp o) {
        Array y = empty(o.getResult(), machine);
        double n = 1;
        for (int64_t size : o.getSize())
          n *= size;
        if (o.getKind() == Pooling::Max)
          y.values.assign(y.values.size(), -std::numeric_limits<double>::infinity());
        pool(o, in[0], y, [&](int64_t x, int64_t at) {
          double v = in[0].values[x];
          y.values[at] = o.getKind() == Pooling::Max ? std::max(y.values[at], v) : y.values[at] + v / n;
        });
        return one(y);
      })
      .Case([&](PoolGradOp o) {
        const Array &d = in[0], &x = in[1];
        Array dx = empty(o.getResult(), machine);
        double n = 1;
        for (int64_t size : o.getSize())
          n *= size;
        std::vector<int64_t> best(d.values.size(), -1);
        pool(o, x, d, [&](int64_t from, int64_t at) {
          if (o.getKind() == Pooling::Avg)
            dx.values[from] += d.values[at] / n;
          else if (best[at] < 0 || x.values[from] > x.values[best[at]] ||
                   (x.values[from] == x.values[best[at]] && from < best[at]))
            best[at] = from;
        });
        for (size_t at = 0; at < best.size(); ++at)
          if (best[at] >= 0)
            dx.values[best[at]] += d.values[at];
        return one(dx);
      })
      .Case([&](AttentionOp o) {
        const Array *mask = o.getMask() ? &in[3] : nullptr, *bias = o.getBias() ? &in[o.getMask() ? 4 : 3] : nullptr;
        Array s = scores(o, in[0], in[1], mask, bias), y = empty(o.getResult(), machine);
        Array lse = logSumExp(s, ArrayAttr::get(o.getContext(), {o.getPastAttr()}));
        Walk walk = walkOver({&s, &lse, &in[2], &y});
        walk.run([&] {
          y.values[walk.at(3)] += std::exp(s.values[walk.at(0)] - lse.values[walk.at(1)]) * in[2].values[walk.at(2)];
        });
        return std::vector<Array>{y, arrange(lse, 1)};
      })
      .Case([&](AttentionGradOp o) {
        const Array &dy = in[0], &q = in[1], &k = in[2], &v = in[3], &y = in[4], &lse = in[5];
        const Array *mask = o.getMask() ? &in[6] : nullptr, *bias = o.getBias() ? &in[o.getMask() ? 7 : 6] : nullptr;
        Array p = scores(o, q, k, mask, bias);
        {
          Walk walk = walkOver({&p, &lse});
          walk.run([&] { p.values[walk.at(0)] = std::exp(p.values[walk.at(0)] - lse.values[walk.at(1)]); });
        }
        ArrayAttr key = ArrayAttr::get(o.getContext(), {o.getKeyAttr()});
        Array dp = p, total = sumOver(combine(y, {&y, &dy}, [](double *x) { return x[0] * x[1]; }), key);
        dp.values.assign(dp.values.size(), 0);
        {
          Walk walk = walkOver({&dp, &dy, &v});
          walk.run([&] { dp.values[walk.at(0)] += dy.values[walk.at(1)] * v.values[walk.at(2)]; });
        }
        Array ds = combine(p, {&p, &dp, &total}, [](double *x) { return x[0] * (x[1] - x[2]); });
        std::vector<Array> out;
        for (Value result : o->getResults())
          out.push_back(empty(result, machine));
        double scale = o.getScale().convertToDouble();
        SmallVector<const Array *> all{&ds, &q, &k, &p, &dy, &out[0], &out[1], &out[2]};
        Walk each = walkOver(all);
        each.run([&] {
          double d = ds.values[each.at(0)] * scale;
          out[0].values[each.at(5)] += d * k.values[each.at(2)];
          out[1].values[each.at(6)] += d * q.values[each.at(1)];
          out[2].values[each.at(7)] += p.values[each.at(3)] * dy.values[each.at(4)];
        });
        if (out.size() > 3) {
          Walk add = walkOver({&ds, &out[3]});
          add.run([&] { out[3].values[add.at(1)] += ds.values[add.at(0)]; });
        }
        return out;
      })
      .Default([&](Operation *o) { return machine.other(o, in); });
}
