// One operation on whole values, by its definition.
#include "test/interpret/Functions.h"
#include "test/passes/layout/Array.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::test;

static constexpr double infinity = std::numeric_limits<double>::infinity();
static double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }
static double smaller(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }

namespace {
struct Evaluator {
  Operation *op;
  const std::vector<Array> &in;
  const Surroundings &around;
  std::vector<Array> out;

  Evaluator(Operation *op, const std::vector<Array> &in, const Surroundings &around) : op(op), in(in), around(around) {
    for (Type type : op->getResultTypes())
      out.emplace_back(cast<Tensor>(type));
  }
  /// Offsets of the elements of one line or plane of `in[0]` along `over`, for each place in the other axes.
  void eachLine(ArrayAttr over, function_ref<void(Space &rest, ArrayRef<int64_t> line)> visit) {
    const Array &x = in[0];
    Space rest, inner;
    for (const Axis &a : x.type.getAxes())
      (has(over, a.name) ? inner : rest).add(a.name, a.size);
    SmallVector<int64_t> line;
    inner.each([&] { line.push_back(inner.in(x)); });
    rest.each([&] {
      SmallVector<int64_t> shifted;
      for (int64_t offset : line)
        shifted.push_back(offset + rest.in(x));
      visit(rest, shifted);
    });
  }

  void map(MapOp op) {
    Space space;
    space.add(out[0].type);
    double values[3] = {}; // no function takes more
    bool toInteger = !out[0].type.isFloat();
    space.each([&] {
      for (auto [i, x] : llvm::enumerate(in))
        values[i] = x.data[space.in(x)];
      out[0].data[space.in(out[0])] = interpret::apply(op.getFunction(), values, toInteger);
    });
  }
  void product() { // dot, and any sum over axes that the result lacks
    Space space;
    space.add(out[0].type);
    for (const Array &x : in)
      space.add(x.type);
    space.each([&] {
      double v = 1;
      for (const Array &x : in)
        v *= x.data[space.in(x)];
      out[0].data[space.in(out[0])] += v;
    });
  }
  void reduce(ReduceOp op) {
    if (op.getKind() == Reduction::Sum)
      return product();
    bool max = op.getKind() == Reduction::Max;
    eachLine(op.getOver(), [&](Space &rest, ArrayRef<int64_t> line) {
      double best = max ? -infinity : infinity;
      for (int64_t i : line)
        best = max ? larger(best, in[0].data[i]) : smaller(best, in[0].data[i]);
      out[0].data[rest.in(out[0])] = best;
    });
  }
  /// The maximum, and log sum exp(x - maximum).
  std::pair<double, double> logSumExp(ArrayRef<int64_t> line) {
    double best = -infinity, sum = 0;
    for (int64_t i : line)
      best = larger(best, in[0].data[i]);
    if (best == -infinity)
      return {0, infinity};
    for (int64_t i : line)
      sum += std::exp(in[0].data[i] - best);
    return {best, std::log(sum)};
  }
  void normalize(NormalizeOp op) {
    eachLine(op.getOver(), [&](Space &rest, ArrayRef<int64_t> line) {
      double mean = 0, square = 0;
      for (int64_t i : line)
        mean += in[0].data[i] / line.size();
      double center = op.getRms() ? 0 : mean;
      for (int64_t i : line)
        square += (in[0].data[i] - center) * (in[0].data[i] - center) / line.size();
      double rstd = 1 / std::sqrt(square + 1e-5);
      for (int64_t i : line)
        out[0].data[i] = (in[0].data[i] - center) * rstd;
      out[1].data[rest.in(out[1])] = rstd;
      out[2].data[rest.in(out[2])] = mean;
      out[3].data[rest.in(out[3])] = square;
      out[4].data[rest.in(out[4])] = 0; // nothing is rounded here
    });
  }
  void normalizeGrad(NormalizeGradOp op) {
    eachLine(op.getOver(), [&](Space &rest, ArrayRef<int64_t> line) {
      double mean = 0, product = 0;
      for (int64_t i : line) {
        mean += in[0].data[i] / line.size();
        product += in[0].data[i] * in[1].data[i] / line.size();
      }
      for (int64_t i : line)
        out[0].data[i] =
            in[2].data[rest.in(in[2])] * (in[0].data[i] - (op.getRms() ? 0 : mean) - in[1].data[i] * product);
    });
  }
  void crossEntropy(CrossEntropyOp op) {
    StringRef axis = cast<StringAttr>(op.getOver()[0]).getValue();
    bool distribution = in[1].type.has(axis);
    eachLine(op.getOver(), [&](Space &rest, ArrayRef<int64_t> line) {
      auto [shift, logSum] = logSumExp(line);
      double lse = shift + logSum, loss = 0;
      if (distribution)
        for (int64_t i : line) // labels lie as the logits do
          loss -= in[1].data[i] * (in[0].data[i] - lse);
      else
        loss = lse - in[0].data[line[int64_t(in[1].data[rest.in(in[1])])]];
      out[0].data[rest.in(out[0])] = loss;
      out[1].data[rest.in(out[1])] = shift;
      out[2].data[rest.in(out[2])] = logSum;
    });
  }
  void argmax(ArrayAttr over) {
    eachLine(over, [&](Space &rest, ArrayRef<int64_t> line) {
      size_t best = 0;
      for (size_t i = 1; i < line.size(); ++i)
        if (in[0].data[line[i]] > in[0].data[line[best]])
          best = i;
      out[0].data[rest.in(out[0])] = best;
    });
  }
  /// Offset in the table of what is gathered at this place of the gathered value's axes.
  int64_t tablePlace(const Array &table, Space &space, ArrayAttr axes, size_t firstIndex) {
    int64_t offset = 0;
    for (const Axis &a : table.type.getAxes()) {
      int64_t at = space.at(a.name);
      for (auto [i, name] : llvm::enumerate(axes.getAsRange<StringAttr>()))
        if (name == a.name)
          at = in[firstIndex + i].data[space.in(in[firstIndex + i])];
      offset = offset * a.size + at;
    }
    return offset;
  }
  void gather(GatherOp op) {
    Space space;
    space.add(out[0].type);
    space.each([&] { out[0].data[space.in(out[0])] = in[0].data[tablePlace(in[0], space, op.getAxes(), 1)]; });
  }
  void scatter(ScatterAddOp op) {
    Space space;
    space.add(in[0].type);
    space.each([&] { out[0].data[tablePlace(out[0], space, op.getAxes(), 1)] += in[0].data[space.in(in[0])]; });
  }
  /// Copies from[axis = at + shift] to to[axis = at] or, inverted, the other way.
  void shift(StringRef axis, int64_t start, bool intoLarger) {
    Space space;
    space.add(intoLarger ? in[0].type : out[0].type);
    Array &small = intoLarger ? const_cast<Array &>(in[0]) : out[0];
    Array &large = intoLarger ? out[0] : const_cast<Array &>(in[0]);
    space.each([&] {
      int64_t l = 0;
      for (const Axis &a : large.type.getAxes())
        l = l * a.size + space.at(a.name) + (a.name == axis ? start : 0);
      (intoLarger ? large.data[l] : small.data[space.in(small)]) =
          intoLarger ? small.data[space.in(small)] : large.data[l];
    });
  }
  void relabel(ArrayAttr from, ArrayAttr to) {
    Space space;
    space.add(in[0].type);
    space.each([&] {
      int64_t offset = 0;
      for (const Axis &a : out[0].type.getAxes()) {
        int64_t at = space.at(a.name);
        for (auto [olds, news] : llvm::zip(from.getAsRange<ArrayAttr>(), to.getAsRange<ArrayAttr>()))
          if (has(news, a.name)) {
            int64_t joint = 0, after = 1;
            for (auto name : olds.getAsRange<StringAttr>())
              joint = joint * in[0].type.sizeOf(name) + space.at(name);
            bool behind = false;
            for (auto name : news.getAsRange<StringAttr>()) {
              if (behind)
                after *= out[0].type.sizeOf(name);
              behind |= name == a.name;
            }
            at = joint / after % a.size;
          }
        offset = offset * a.size + at;
      }
      out[0].data[offset] = in[0].data[space.in(in[0])];
    });
  }
  void concat(ConcatOp op) {
    int64_t start = 0;
    for (const Array &x : in) {
      Space space;
      space.add(x.type);
      space.each([&] {
        int64_t offset = 0;
        for (const Axis &a : out[0].type.getAxes())
          offset = offset * a.size + space.at(a.name) + (a.name == op.getAxis() ? start : 0);
        out[0].data[offset] = x.data[space.in(x)];
      });
      start += x.type.sizeOf(op.getAxis());
    }
  }
  /// Visits (place in y, place in x, place in w) of a convolution.
  template <typename Op>
  void convolve(Op op, const Array &y, const Array &x, const Array &w,
                function_ref<void(int64_t, int64_t, int64_t)> visit) {
    Space space;
    space.add(y.type);
    space.add(w.type);
    for (const Axis &a : x.type.getAxes())
      if (!has(op.getWindow(), a.name))
        space.add(a.name, a.size);
    struct Along {
      int outer, kernel; // axes of the space; kernel -1: not a window
      int64_t size, stride, pad;
    };
    SmallVector<Along> axes;
    for (const Axis &a : x.type.getAxes()) {
      Along along{space.index(a.name), -1, a.size, 1, 0};
      for (auto [i, pair] : llvm::enumerate(llvm::zip(op.getWindow().template getAsRange<StringAttr>(),
                                                      op.getKernel().template getAsRange<StringAttr>())))
        if (std::get<0>(pair) == a.name)
          along = {space.index(a.name), space.index(std::get<1>(pair)), a.size, op.getStride()[i], op.getPadLow()[i]};
      axes.push_back(along);
    }
    space.each([&] {
      int64_t offset = 0;
      for (const Along &a : axes) {
        int64_t at = space.place[a.outer];
        if (a.kernel >= 0)
          at = at * a.stride + space.place[a.kernel] - a.pad;
        if (at < 0 || at >= a.size)
          return;
        offset = offset * a.size + at;
      }
      visit(space.in(y), offset, space.in(w));
    });
  }
  template <typename Op>
  void windows(Op op, const Array &y, const Array &x, function_ref<void(int64_t, ArrayRef<int64_t>)> visit) {
    Space space, inner;
    space.add(y.type);
    for (auto [i, name] : llvm::enumerate(op.getWindow().template getAsRange<StringAttr>()))
      inner.add(name, op.getSize()[i]);
    space.each([&] {
      SmallVector<int64_t> line;
      inner.each([&] {
        int64_t offset = 0;
        for (const Axis &a : x.type.getAxes()) {
          int64_t at = space.at(a.name);
          for (auto [i, name] : llvm::enumerate(op.getWindow().template getAsRange<StringAttr>()))
            if (name == a.name)
              at = at * op.getStride()[i] + inner.at(name) - op.getPad()[i];
          if (at < 0 || at >= a.size)
            return;
          offset = offset * a.size + at;
        }
        line.push_back(offset);
      });
      visit(space.in(y), line);
    });
  }
  static int64_t highest(const Array &x, ArrayRef<int64_t> line) {
    int64_t best = line[0];
    for (int64_t i : line)
      if (x.data[i] > x.data[best])
        best = i;
    return best;
  }
  template <typename Op> double windowSize(Op op) {
    double n = 1;
    for (int64_t size : op.getSize())
      n *= size;
    return n;
  }
  template <typename Op>
  double score(Op op, Space &space, const Array &q, const Array &k, StringRef key, int64_t keys, const Array *mask,
               const Array *bias) {
    if (op.getCausal() && space.at(op.getQuery()) < space.at(op.getPast()))
      return -infinity;
    if (mask && mask->data[space.in(*mask)] == 0)
      return -infinity;
    double s = 0;
    int64_t a = space.in(q), b = space.in(k);
    for (int64_t i = 0; i < keys; ++i)
      s += q.data[a + i * q.stride(key)] * k.data[b + i * k.stride(key)];
    return s * op.getScale().convertToDouble() + (bias ? bias->data[space.in(*bias)] : 0);
  }
  void attention(AttentionOp op) {
    const Array &q = in[0], &k = in[1], &v = in[2];
    const Array *mask = op.getMask() ? &in[3] : nullptr, *bias = op.getBias() ? &in.back() : nullptr;
    StringRef key = op.getKey();
    int64_t keys = q.type.sizeOf(key), n = k.type.sizeOf(op.getPast());
    Space rest, past;
    for (const Axis &a : out[1].type.getAxes())
      rest.add(a.name, a.size);
    rest.each([&] {
      SmallVector<double> scores(n);
      double best = -infinity, sum = 0;
      for (int64_t p = 0; p < n; ++p) {
        Space both;
        both = at(rest, out[1].type, op.getPast(), p, n);
        scores[p] = score(op, both, q, k, key, keys, mask, bias);
        best = larger(best, scores[p]);
      }
      for (double s : scores)
        sum += std::exp(s - best);
      out[1].data[rest.in(out[1])] = best;
      out[2].data[rest.in(out[2])] = sum;
      for (int64_t p = 0; p < n; ++p) {
        Space both = at(rest, out[1].type, op.getPast(), p, n);
        for (int64_t i = 0; i < keys; ++i)
          out[0].data[rest.in(out[0]) + i * out[0].stride(key)] +=
              std::exp(scores[p] - best) / sum * v.data[both.in(v) + i * v.stride(key)];
      }
    });
  }
  void attentionGrad(AttentionGradOp op) {
    const Array &d = in[0], &q = in[1], &k = in[2], &v = in[3], &o = in[4], &top = in[5], &sum = in[6];
    const Array *mask = op.getMask() ? &in[7] : nullptr, *bias = op.getBias() ? &in.back() : nullptr;
    StringRef key = op.getKey();
    int64_t keys = q.type.sizeOf(key), n = k.type.sizeOf(op.getPast());
    double scale = op.getScale().convertToDouble();
    Space rest;
    rest.add(top.type);
    rest.each([&] {
      double dot = 0;
      for (int64_t i = 0; i < keys; ++i)
        dot += d.data[rest.in(d) + i * d.stride(key)] * o.data[rest.in(o) + i * o.stride(key)];
      for (int64_t p = 0; p < n; ++p) {
        Space both = at(rest, top.type, op.getPast(), p, n);
        double above = score(op, both, q, k, key, keys, mask, bias) - top.data[rest.in(top)];
        double all = sum.data[rest.in(sum)]; // 0 in rows that the rank does not hold
        double weight = all == 0 ? 0 : std::exp(above) / all, dp = 0;
        for (int64_t i = 0; i < keys; ++i)
          dp += d.data[both.in(d) + i * d.stride(key)] * v.data[both.in(v) + i * v.stride(key)];
        double ds = weight * (dp - dot);
        for (int64_t i = 0; i < keys; ++i) {
          out[0].data[both.in(out[0]) + i * q.stride(key)] += scale * ds * k.data[both.in(k) + i * k.stride(key)];
          out[1].data[both.in(out[1]) + i * k.stride(key)] += scale * ds * q.data[both.in(q) + i * q.stride(key)];
          out[2].data[both.in(out[2]) + i * v.stride(key)] += weight * d.data[both.in(d) + i * d.stride(key)];
        }
        if (out.size() > 3)
          out[3].data[both.in(out[3])] += ds;
      }
    });
  }
  /// The place of `rest` in the axes of `type`, with one axis more at p.
  static Space at(Space &rest, Tensor type, StringRef axis, int64_t p, int64_t n) {
    Space both;
    for (const Axis &a : type.getAxes())
      both.add(a.name, a.size);
    both.add(axis, n);
    both.stand([&](StringRef name) { return name == axis ? p : rest.at(name); });
    return both;
  }
  void random(RandomOp op) {
    Space space;
    space.add(out[0].type);
    space.each([&] {
      out[0].data[space.in(out[0])] = interpret::randomAt(op, around.loops, around.batchAxis, around.seed, around.step,
                                                          [&](StringRef axis) { return space.at(axis); });
    });
  }
  /// Indices of the largest, the lowest first among equals.
  void top(TopOp op) {
    int64_t stride = out[0].stride(op.getInto()), count = out[0].type.sizeOf(op.getInto());
    eachLine(op.getOver(), [&](Space &rest, ArrayRef<int64_t> line) {
      std::vector<int64_t> order(line.size());
      for (size_t i = 0; i < order.size(); ++i)
        order[i] = i;
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return in[0].data[line[a]] > in[0].data[line[b]]; });
      for (int64_t i = 0; i < count; ++i)
        out[0].data[rest.in(out[0]) + i * stride] = order[i];
    });
  }
  /// Gram-Schmidt of lines, one for each place of the axis of vectors.
  void orthogonalize(OrthogonalizeOp op) {
    out[0].data = in[0].data;
    std::vector<double> &y = out[0].data;
    const int64_t stride = in[0].stride(op.getVectors()), count = tensor(op.getOperand()).sizeOf(op.getVectors());
    auto norm = [&](ArrayRef<int64_t> line, int64_t ahead) {
      double squares = 0;
      for (int64_t i : line)
        squares += y[i + ahead * stride] * y[i + ahead * stride];
      return std::sqrt(squares);
    };
    double longest = 0; // of the vectors at one place of all else, which follow each other
    eachLine(op.getOver(), [&](Space &rest, ArrayRef<int64_t> line) {
      const int64_t vector = rest.at(op.getVectors());
      if (vector == 0) {
        longest = 0;
        for (int64_t v = 0; v < count; ++v)
          longest = std::max(longest, norm(line, v));
      }
      for (int64_t before = 0; before < vector; ++before) {
        double along = 0;
        for (int64_t i : line)
          along += y[i] * y[i - (vector - before) * stride];
        for (int64_t i : line)
          y[i] -= along * y[i - (vector - before) * stride];
      }
      const double left = norm(line, 0);
      for (int64_t i : line)
        y[i] = left <= 1e-5 * longest ? 0 : y[i] / left;
    });
  }
  void fill(double value) { std::fill(out[0].data.begin(), out[0].data.end(), value); }

  void run() {
    llvm::TypeSwitch<Operation *>(op)
        .Case<MapOp>([&](auto op) { map(op); })
        .Case<ExpandOp>([&](auto) {
          Space space;
          space.add(out[0].type);
          space.each([&] { out[0].data[space.in(out[0])] = in[0].data[space.in(in[0])]; });
        })
        .Case<DotOp>([&](auto) { product(); })
        .Case<ReduceOp>([&](auto op) { reduce(op); })
        .Case<TopOp>([&](auto op) { top(op); })
        .Case<OrthogonalizeOp>([&](auto op) { orthogonalize(op); })
        .Case<ArgMaxOp>([&](auto op) { argmax(op.getOver()); })
        .Case<SoftmaxOp>([&](auto op) {
          eachLine(op.getOver(), [&](Space &, ArrayRef<int64_t> line) {
            auto [shift, logSum] = logSumExp(line);
            for (int64_t i : line)
              out[0].data[i] = std::exp(in[0].data[i] - shift - logSum);
          });
        })
        .Case<LogSumExpOp>([&](auto op) {
          eachLine(op.getOver(), [&](Space &rest, ArrayRef<int64_t> line) {
            auto [shift, logSum] = logSumExp(line);
            out[0].data[rest.in(out[0])] = logSum == infinity ? -infinity : shift + logSum;
            out[1].data[rest.in(out[1])] = shift;
            out[2].data[rest.in(out[2])] = logSum;
          });
        })
        .Case<CrossEntropyOp>([&](auto op) { crossEntropy(op); })
        .Case<NormalizeOp>([&](auto op) { normalize(op); })
        .Case<NormalizeGradOp>([&](auto op) { normalizeGrad(op); })
        .Case<CumSumOp>([&](auto op) {
          eachLine(op.getOver(), [&](Space &, ArrayRef<int64_t> line) {
            double sum = 0;
            for (size_t i = 0; i < line.size(); ++i) {
              int64_t at = line[op.getReverse() ? line.size() - 1 - i : i];
              out[0].data[at] = sum += in[0].data[at];
            }
          });
        })
        .Case<GlobalNormOp>([&](auto) {
          double sum = 0;
          for (const Array &x : in)
            for (double v : x.data)
              sum += v * v;
          fill(std::sqrt(sum));
        })
        .Case<GatherOp>([&](auto op) { gather(op); })
        .Case<ScatterAddOp>([&](auto op) { scatter(op); })
        .Case<PickOp>([&](auto op) { shift(op.getAxis(), op.getPosition(), false); })
        .Case<PlaceOp>([&](auto op) { shift(op.getAxis(), op.getPosition(), true); })
        .Case<SliceOp>([&](auto op) { shift(op.getAxis(), op.getStart(), false); })
        .Case<PadOp>([&](auto op) { shift(op.getAxis(), op.getStart(), true); })
        .Case<RelabelOp>([&](auto op) { relabel(op.getFrom(), op.getTo()); })
        .Case<ConcatOp>([&](auto op) { concat(op); })
        .Case<ConvOp>([&](auto op) {
          convolve(op, out[0], in[0], in[1],
                   [&](int64_t y, int64_t x, int64_t w) { out[0].data[y] += in[0].data[x] * in[1].data[w]; });
        })
        .Case<ConvGradXOp>([&](auto op) {
          convolve(op, in[0], out[0], in[1],
                   [&](int64_t y, int64_t x, int64_t w) { out[0].data[x] += in[0].data[y] * in[1].data[w]; });
        })
        .Case<ConvGradWOp>([&](auto op) {
          convolve(op, in[0], in[1], out[0],
                   [&](int64_t y, int64_t x, int64_t w) { out[0].data[w] += in[0].data[y] * in[1].data[x]; });
        })
        .Case<PoolOp>([&](auto op) {
          windows(op, out[0], in[0], [&](int64_t y, ArrayRef<int64_t> line) {
            if (op.getKind() == Pooling::Max)
              out[0].data[y] = in[0].data[highest(in[0], line)];
            else
              for (int64_t i : line)
                out[0].data[y] += in[0].data[i] / windowSize(op);
          });
        })
        .Case<PoolGradOp>([&](auto op) {
          windows(op, in[0], in[1], [&](int64_t y, ArrayRef<int64_t> line) {
            if (op.getKind() == Pooling::Max)
              out[0].data[highest(in[1], line)] += in[0].data[y];
            else
              for (int64_t i : line)
                out[0].data[i] += in[0].data[y] / windowSize(op);
          });
        })
        .Case<AttentionOp>([&](auto op) { attention(op); })
        .Case<AttentionGradOp>([&](auto op) { attentionGrad(op); })
        .Case<ConstantOp>([&](auto op) { fill(op.getValue().convertToDouble()); })
        .Case<CountOp>([&](auto op) {
          double n = 1;
          for (int64_t size : op.getSizes())
            n *= size;
          fill(n);
        })
        .Case<ScalarOp>(
            [&](auto op) { fill(interpret::scalarOf(op, around.learningRate, around.step, 0, around.lossScale)); })
        .Case<IndexOp>([&](auto) {
          for (auto [i, v] : llvm::enumerate(out[0].data))
            v = i;
        })
        .Case<PositionOp>([&](auto op) {
          for (const interpret::Loop &loop : around.loops)
            if (loop.axis == op.getAxis())
              fill(loop.position);
        })
        .Case<RandomOp>([&](auto op) { random(op); })
        .Default([](Operation *op) {
          llvm::report_fatal_error(Twine("the test does not know ") + op->getName().getStringRef());
        });
  }
};
} // namespace

std::vector<Array> echelon::test::evaluate(Operation *op, const std::vector<Array> &operands,
                                           const Surroundings &around) {
  Evaluator evaluator(op, operands, around);
  evaluator.run();
  return std::move(evaluator.out);
}
