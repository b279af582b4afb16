// A library in cuDNN's place, for tests on the host: attention by its definition, with weights rounded to two bytes
// before they are multiplied, and convolutions by plain loops; or with a fault.
#pragma once
#include "runtime/cuda/Dnn.h"
#include "runtime/cuda/host/Block.h"
#include "runtime/kernels/Conv.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace echelon::cuda {

enum class Fault {
  none,
  shifted,   // the diagonal is one key further; zeros before x are after it
  scaled,    // scores are 5 % larger
  base2,     // the logarithm is to base 2
  mapped,    // heads of queries take turns at the heads of keys
  unwritten, // the last row is missing
  restless,  // the last bit of an element changes from run to run
  rounded,   // operands of a convolution have 10 bits of mantissa
  refuses,   // makes no plan
  fails,     // makes plans that do not run
};

class StandIn : public DnnLibrary {
public:
  /// What tests look at afterwards, and may change.
  struct State {
    Fault fault = Fault::none;
    size_t workspaceOfSample = 0;
    int plans = 0, runs = 0;
  };
  explicit StandIn(State &state) : state(state) {}

  std::string name() const override { return "stand-in 1.0"; }
  std::unique_ptr<DnnPlan<DnnAttentionOperands>> plan(const DnnAttention &of, bool isGradient,
                                                      std::string &why) override {
    if (state.fault == Fault::refuses) {
      why = "not supported";
      return nullptr;
    }
    ++state.plans;
    return std::make_unique<Plan>(state, of, isGradient);
  }

  std::unique_ptr<DnnPlan<DnnConvOperands>> plan(const runtime::ConvShape &shape, runtime::ConvKind kind, size_t,
                                                 std::string &) override {
    ++state.plans;
    return std::make_unique<ConvPlan>(state, shape, kind);
  }

private:
  struct Plan : DnnPlan<DnnAttentionOperands> {
    State &state;
    DnnAttention of;
    bool isGradient;
    Plan(State &state, const DnnAttention &of, bool isGradient) : state(state), of(of), isGradient(isGradient) {}

    size_t workspace() const override { return state.workspaceOfSample * static_cast<size_t>(of.batch); }
    bool run(cudaStream_t stream, const DnnAttentionOperands &x, void *, std::string &why) override {
      if (state.fault == Fault::fails) {
        why = "execution failed";
        return false;
      }
      std::string what = "attention";
      const std::vector<host::Range> touched = host::announcedFor(stream, what);
      const auto compute = [of = of, x, isGradient = isGradient, fault = state.fault, number = state.runs++] {
        of.type == DnnType::bf16 ? Computed<runtime::bf16>(of, x, fault, number).run(isGradient)
                                 : Computed<runtime::fp16>(of, x, fault, number).run(isGradient);
      };
      host::enqueue(stream, what.c_str(), touched, compute);
      return true;
    }
  };

  template <typename T> struct Computed {
    const DnnAttention &of;
    const DnnAttentionOperands &x;
    Fault fault;
    int number;
    int64_t b = 0, h = 0;

    Computed(const DnnAttention &of, const DnnAttentionOperands &x, Fault fault, int number)
        : of(of), x(x), fault(fault), number(number) {}

    static float rounded(float v) { return static_cast<float>(T(v)); }
    int64_t keyHead() const { return fault == Fault::mapped ? h % of.keyHeads : h / (of.heads / of.keyHeads); }
    template <typename X> X *row(X *x, const DnnStrides &s, int64_t head, int64_t i) const {
      return x + b * s.batch + head * s.head + i * s.row;
    }
    const T *q(int64_t i) const { return row(static_cast<const T *>(x.q), of.q, h, i); }
    const T *k(int64_t j) const { return row(static_cast<const T *>(x.k), of.k, keyHead(), j); }
    const T *v(int64_t j) const { return row(static_cast<const T *>(x.v), of.v, keyHead(), j); }
    T *out(int64_t i) const { return row(static_cast<T *>(x.out), of.out, h, i); }
    const T *dout(int64_t i) const { return row(static_cast<const T *>(x.dout), of.dout, h, i); }
    float &logSum(int64_t i) const { return x.logSum[(b * of.heads + h) * of.seq + i]; }

    static float dot(const T *a, const T *b, int64_t n) {
      float sum = 0;
      for (int64_t c = 0; c < n; ++c)
        sum += static_cast<float>(a[c]) * static_cast<float>(b[c]);
      return sum;
    }
    int64_t keysOf(int64_t i) const {
      if (of.sight == DnnSight::all)
        return of.past;
      const int64_t last = i + (of.sight == DnnSight::bottomRight ? of.past - of.seq : 0);
      return std::min(of.past, last + 1 + (fault == Fault::shifted));
    }
    float score(int64_t i, int64_t j) const {
      return of.scale * (fault == Fault::scaled ? 1.05f : 1.0f) * dot(q(i), k(j), of.key);
    }

    void run(bool isGradient) {
      for (b = 0; b < of.batch; ++b)
        isGradient ? gradients() : forward();
    }
    void forward() {
      for (h = 0; h < of.heads; ++h)
        for (int64_t i = 0; i < of.seq - (fault == Fault::unwritten); ++i) {
          std::vector<float> s, sums(static_cast<size_t>(of.value));
          for (int64_t j = 0; j < keysOf(i); ++j)
            s.push_back(score(i, j));
          const float most = *std::max_element(s.begin(), s.end());
          float sum = 0;
          for (int64_t j = 0; j < keysOf(i); ++j) {
            const float e = std::exp(s[static_cast<size_t>(j)] - most);
            sum += e;
            for (int64_t c = 0; c < of.value; ++c)
              sums[static_cast<size_t>(c)] += rounded(e) * static_cast<float>(v(j)[c]);
          }
          for (int64_t c = 0; c < of.value; ++c)
            out(i)[c] = T(sums[static_cast<size_t>(c)] / sum);
          logSum(i) = (most + std::log(sum)) * (fault == Fault::base2 ? 1.442695f : 1.0f);
          stir(out(i), i);
        }
    }
    void gradients() {
      const size_t keys = static_cast<size_t>(of.past * of.keyHeads);
      std::vector<float> dk(keys * static_cast<size_t>(of.key)), dv(keys * static_cast<size_t>(of.value));
      for (h = 0; h < of.heads; ++h)
        for (int64_t i = 0; i < of.seq - (fault == Fault::unwritten); ++i) {
          std::vector<float> dq(static_cast<size_t>(of.key));
          const float inner = dot(dout(i), out(i), of.value);
          const float sum = fault == Fault::base2 ? logSum(i) / 1.442695f : logSum(i);
          for (int64_t j = 0; j < keysOf(i); ++j) {
            const float p = std::exp(score(i, j) - sum);
            const float ds = rounded(p * (dot(dout(i), v(j), of.value) - inner) * of.scale);
            const int64_t at = keyHead() * of.past + j;
            for (int64_t c = 0; c < of.value; ++c)
              dv[static_cast<size_t>(at * of.value + c)] += rounded(p) * static_cast<float>(dout(i)[c]);
            for (int64_t c = 0; c < of.key; ++c) {
              dq[static_cast<size_t>(c)] += ds * static_cast<float>(k(j)[c]);
              dk[static_cast<size_t>(at * of.key + c)] += ds * static_cast<float>(q(i)[c]);
            }
          }
          T *to = row(static_cast<T *>(x.dq), of.dq, h, i);
          for (int64_t c = 0; c < of.key; ++c)
            to[c] = T(dq[static_cast<size_t>(c)]);
          stir(to, i);
        }
      for (int64_t head = 0; head < of.keyHeads; ++head)
        for (int64_t j = 0; j < of.past; ++j) {
          const int64_t at = head * of.past + j;
          for (int64_t c = 0; c < of.key; ++c)
            row(static_cast<T *>(x.dk), of.dk, head, j)[c] = T(dk[static_cast<size_t>(at * of.key + c)]);
          for (int64_t c = 0; c < of.value; ++c)
            row(static_cast<T *>(x.dv), of.dv, head, j)[c] = T(dv[static_cast<size_t>(at * of.value + c)]);
        }
    }
    void stir(T *to, int64_t i) const {
      if (fault == Fault::restless && i == of.seq / 2)
        to[0].bits = static_cast<uint16_t>((to[0].bits & ~1) | (number & 1));
    }
  };

  struct ConvPlan : DnnPlan<DnnConvOperands> {
    State &state;
    runtime::ConvShape shape;
    runtime::ConvKind kind;
    ConvPlan(State &state, const runtime::ConvShape &shape, runtime::ConvKind kind)
        : state(state), shape(shape), kind(kind) {
      if (state.fault == Fault::shifted)
        std::swap(this->shape.dims[1].padLow, this->shape.dims[1].padHigh);
    }

    size_t workspace() const override { return 64; }
    bool run(cudaStream_t stream, const DnnConvOperands &x, void *, std::string &) override {
      std::string what = "conv";
      const std::vector<host::Range> touched = host::announcedFor(stream, what);
      ++state.runs;
      host::enqueue(stream, what.c_str(), touched,
                    [shape = shape, kind = kind, x, isRounded = state.fault == Fault::rounded] {
                      compute(shape, kind, x, isRounded);
                    });
      return true;
    }
    static void compute(const runtime::ConvShape &shape, runtime::ConvKind kind, const DnnConvOperands &x,
                        bool isRounded) {
      int64_t in = 1, out = 1, window = 1;
      for (int k = 0; k < shape.rank; ++k)
        in *= shape.dims[k].in, out *= shape.dims[k].out(), window *= shape.dims[k].window;
      const auto copied = [&](const void *from, bool isY, bool isX) {
        const int64_t count = isY   ? shape.batch * shape.to * out
                              : isX ? shape.batch * shape.from * in
                                    : shape.to * shape.from * window;
        std::vector<float> values(static_cast<const float *>(from), static_cast<const float *>(from) + count);
        for (float &v : values)
          if (isRounded) // to 10 bits of mantissa
            v = std::ldexp(std::nearbyint(std::ldexp(v, 10 - std::ilogb(v))), std::ilogb(v) - 10);
        return values;
      };
      using runtime::ConvKind;
      const std::vector<float> first = copied(x.first, kind != ConvKind::forward, true),
                               second = copied(x.second, false, kind == ConvKind::gradWeights);
      float *result = static_cast<float *>(x.result);
      if (kind == ConvKind::forward)
        runtime::reference::conv(result, first.data(), second.data(), shape);
      else if (kind == ConvKind::gradData)
        runtime::reference::conv_grad_data(result, first.data(), second.data(), shape);
      else
        runtime::reference::conv_grad_weights(result, second.data(), first.data(), shape);
    }
  };

  State &state;
};

} // namespace echelon::cuda
