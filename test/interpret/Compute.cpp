// The meaning of each operation without a region.
#include "runtime/random/Philox.h"
#include "test/interpret/Algebra.h"
#include "test/interpret/Attention.h"
#include "test/interpret/Functions.h"
#include "test/interpret/Windows.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace echelon::ech;
using namespace echelon::interpret;

static constexpr double kEpsilon = 1e-5; // of norms

static Array empty(Value result, Machine &machine) { return Array(machine.shape(result)); }

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

double echelon::interpret::scalarOf(ScalarOp op, double learningRate, int64_t step, int64_t skipped, double lossScale) {
  return op.getName() == "learning_rate"     ? learningRate
         : op.getName() == "bias_correction" ? 1 - std::pow(op.getBeta().convertToDouble(), double(step - skipped + 1))
         : op.getName() == "loss_scale"      ? lossScale
         : op.getName() == "average_decay"
             ? std::min(op.getBeta().convertToDouble(), double(step - skipped + 2) / double(step - skipped + 11))
             : double(step);
}

Type echelon::interpret::roundsTo(Operation *op) {
  auto map = dyn_cast<MapOp>(op);
  if (!map)
    return {};
  const Type element = tensor(map.getResult()).getElement();
  switch (map.getFunction()) {
  case Function::RoundTf32:
    return FloatTF32Type::get(op->getContext());
  case Function::RoundE4M3:
    return Float8E4M3FNType::get(op->getContext());
  case Function::RoundE5M2:
    return Float8E5M2Type::get(op->getContext());
  case Function::Cast:
    return isNarrow(element) ? element : Type();
  default:
    return {};
  }
}

double echelon::interpret::rounded(double x, Type type) {
  if (x == 0 || !std::isfinite(x))
    return x;
  const auto &semantics = cast<FloatType>(type).getFloatSemantics();
  const int digits = int(llvm::APFloat::semanticsPrecision(semantics));
  const int least = llvm::APFloat::semanticsMinExponent(semantics),
            most = llvm::APFloat::semanticsMaxExponent(semantics);
  const int place = std::max(std::ilogb(x), least) - (digits - 1); // of the last digit
  const double y = std::ldexp(std::nearbyint(std::ldexp(x, -place)), place);
  return std::ilogb(y) > most && y != 0 ? std::copysign(INFINITY, y) : y;
}

void Machine::keep(Operation *op, std::vector<Array> &results) {
  if (Type type = roundsTo(op))
    for (double &x : results[0].values)
      x = rounded(x, type);
}

/// Gram-Schmidt of the vectors along `over`, in their order.
static Array orthogonal(const Array &x, ArrayAttr over, StringRef vectors) {
  std::vector<std::string> order;
  int64_t n = 1;
  for (const std::string &axis : x.axes)
    if (!has(over, axis) && axis != vectors)
      order.push_back(axis);
  for (StringRef axis : strings(over)) {
    order.push_back(axis.str());
    n *= x.sizeOf(axis);
  }
  order.push_back(vectors.str());
  Array y = x.inOrder(order);
  const int64_t inner = x.sizeOf(vectors), outer = int64_t(y.values.size()) / (n * inner);
  for (int64_t o = 0; o < outer; ++o) {
    auto at = [&](int64_t i, int64_t v) -> double & { return y.values[(o * n + i) * inner + v]; };
    auto norm = [&](int64_t v) {
      double squares = 0;
      for (int64_t i = 0; i < n; ++i)
        squares += at(i, v) * at(i, v);
      return std::sqrt(squares);
    };
    double longest = 0;
    for (int64_t j = 0; j < inner; ++j)
      longest = std::max(longest, norm(j));
    for (int64_t j = 0; j < inner; ++j) {
      for (int64_t before = 0; before < j; ++before) {
        double along = 0;
        for (int64_t i = 0; i < n; ++i)
          along += at(i, j) * at(i, before);
        for (int64_t i = 0; i < n; ++i)
          at(i, j) -= along * at(i, before);
      }
      const double left = norm(j);
      for (int64_t i = 0; i < n; ++i)
        at(i, j) = left <= 1e-5 * longest ? 0 : at(i, j) / left;
    }
  }
  return y;
}

std::vector<Array> Machine::other(Operation *op, ArrayRef<Array>) {
  llvm::report_fatal_error(llvm::Twine("the interpreter does not know ") + op->getName().getStringRef());
}

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
        y.values[0] = scalarOf(o, machine.learningRate, machine.step, machine.skipped, machine.lossScale);
        if (o.getName() == "samples") {
          y.values[0] = 0;
          for (double v : machine.values.at(std::string(kValidSamples)).values)
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
      .Case([&](PerWorkerOp o) { // one worker's part is the sum
        return one(combine(empty(o.getResult(), machine), {&in[0]}, [](double *x) { return x[0]; }));
      })
      .Case([&](HandInOp o) { // another name for an axis
        Array y = in[0];
        const StringRef before = tensor(o.getOperand()).getAxes().front().name.getValue();
        std::replace(y.axes.begin(), y.axes.end(), before.str(),
                     tensor(o.getResult()).getAxes().front().name.getValue().str());
        return one(arrange(y));
      })
      .Case([&](OrthogonalizeOp o) { return one(arrange(orthogonal(in[0], o.getOver(), o.getVectors()))); })
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
        Array lse = logSumExp(in[0], o.getOver()).lse;
        return one(arrange(combine(in[0], {&in[0], &lse}, [](double *x) { return std::exp(x[0] - x[1]); })));
      })
      .Case([&](LogSumExpOp o) {
        LogSumExp of = logSumExp(in[0], o.getOver());
        return std::vector<Array>{arrange(of.lse), arrange(of.shift, 1), arrange(of.logSum, 2)};
      })
      .Case([&](CrossEntropyOp o) {
        LogSumExp of = logSumExp(in[0], o.getOver());
        Array loss = shrunk(in[0], o.getOver(), 0);
        StringRef over = cast<StringAttr>(o.getOver()[0]).getValue();
        bool distribution = llvm::is_contained(in[1].axes, over);
        Walk walk = walkOver({&in[0], &in[1], &of.lse, &loss});
        walk.run([&] {
          double label = in[1].values[walk.at(1)];
          double p = distribution ? label : label == walk.coordinate(over);
          if (p != 0)
            loss.values[walk.at(3)] += p * (of.lse.values[walk.at(2)] - in[0].values[walk.at(0)]);
        });
        return std::vector<Array>{arrange(loss), arrange(of.shift, 1), arrange(of.logSum, 2)};
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
        Array low = shrunk(in[0], o.getOver(), 0); // nothing is rounded here
        return std::vector<Array>{arrange(y), arrange(rstd, 1), arrange(mean, 2), arrange(variance, 3),
                                  arrange(low, 4)};
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
      .Case<ConvOp, ConvGradXOp, ConvGradWOp, PoolOp, PoolGradOp>(
          [&](auto o) { return one(computeWindows(o, in, machine)); })
      .Case<AttentionOp, AttentionGradOp>([&](auto o) { return computeAttention(o, in, machine); })
      .Default([&](Operation *o) { return machine.other(o, in); });
}
