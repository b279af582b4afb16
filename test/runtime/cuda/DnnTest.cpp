// When cuDNN's attention is taken, and when our own kernels are: with a stand-in, since cuDNN needs a GPU.
#include "OnDevice.h"
#include "StandIn.h"
#include "UnderSeeds.h"
#include "runtime/cuda/DnnAttentionShape.h"
#include "runtime/cuda/DnnChoice.h"

namespace echelon::cuda {
namespace {

/// (batch, rows, group, head, width) in storage order, dense; `heads` false: heads of a group share a place.
HeadStrides storage(const AttentionShape &s, int64_t rows, int64_t width, bool heads = true) {
  const int64_t head = heads ? s.head : 1;
  return {rows * s.group * head * width, head * width, heads ? width : 0, s.group * head * width};
}
AttentionStrides storages(const AttentionShape &s, bool keyHeads = true) {
  return {storage(s, s.seq, s.key), storage(s, s.past, s.key, keyHeads), storage(s, s.past, s.value, keyHeads),
          storage(s, s.seq, s.value)};
}
constexpr AttentionShape kCausal = {3, 1, 2, 64, 64, 16, 16, 0.25, true};

//===-- shapes ---------------------------------------------------------------------------------------------------===//

std::optional<DnnAttention> covered(const AttentionShape &s) {
  const AttentionStrides strides = storages(s);
  return dnn_attention_of(DnnType::bf16, s, strides, &strides);
}

// A shape as GPT-2's goes over as it is.
TEST(DnnAttentionShape, GoesOver) {
  const auto of = covered({64, 1, 12, 1024, 1024, 64, 64, 0.125, true});
  ASSERT_TRUE(of);
  EXPECT_EQ(of->sight, DnnSight::topLeft);
  EXPECT_EQ(of->batch, 64);
  EXPECT_EQ(of->heads, 12);
  EXPECT_EQ(of->keyHeads, 12);
  EXPECT_EQ(of->q.batch, 1024 * 768);
  EXPECT_EQ(of->q.head, 64);
  EXPECT_EQ(of->q.row, 768);
  EXPECT_EQ(of->scale, 0.125f);
}

// Where query i sees keys up to i + offset: which diagonal that is, of how many keys.
TEST(DnnAttentionShape, Offsets) {
  const auto of = [](int64_t seq, int64_t past, int64_t offset) {
    return covered({1, 1, 1, seq, past, 8, 8, 1, true, offset});
  };
  const auto is = [](const std::optional<DnnAttention> &x, DnnSight sight, int64_t past) {
    return x && x->sight == sight && x->past == past;
  };
  EXPECT_TRUE(is(of(64, 64, 0), DnnSight::topLeft, 64));
  EXPECT_TRUE(is(of(64, 100, 0), DnnSight::topLeft, 64)); // 36 keys are not seen
  EXPECT_TRUE(is(of(100, 64, 0), DnnSight::topLeft, 64));
  EXPECT_TRUE(is(of(64, 256, 192), DnnSight::bottomRight, 256));
  EXPECT_TRUE(is(of(64, 256, 128), DnnSight::bottomRight, 192)); // the third of four parts of a sequence
  EXPECT_TRUE(is(of(64, 128, 127), DnnSight::all, 128));
  EXPECT_TRUE(is(of(64, 128, 500), DnnSight::all, 128));
  EXPECT_FALSE(of(64, 128, 100)); // the diagonal ends at the last key before the last query
  EXPECT_FALSE(of(64, 128, -1));  // the first query sees no key
  EXPECT_TRUE(is(covered({1, 1, 1, 64, 128, 8, 8, 1, false, -1}), DnnSight::all, 128));
}

TEST(DnnAttentionShape, Sizes) {
  const auto of = [](int64_t seq, int64_t past, int64_t key, int64_t value) {
    return covered({2, 1, 2, seq, past, key, value, 1, false}).has_value();
  };
  for (int64_t size : {8, 64, 96, 128, 256})
    EXPECT_TRUE(of(64, 64, size, size)) << size;
  EXPECT_TRUE(of(64, 64, 64, 128));
  for (int64_t size : {4, 12, 65, 264})
    EXPECT_FALSE(of(64, 64, size, 64) || of(64, 64, 64, size)) << size;
  EXPECT_FALSE(of(63, 64, 64, 64));
  EXPECT_FALSE(of(64, 63, 64, 64));
  EXPECT_FALSE(covered({0, 1, 2, 64, 64, 64, 64, 1, false}));
}

// Four heads of each of two groups read the group's keys; then all read one head of keys.
TEST(DnnAttentionShape, GroupedQueries) {
  const AttentionShape s = {2, 2, 4, 64, 64, 64, 64, 0.125, true};
  AttentionStrides strides = storages(s, false);
  auto of = dnn_attention_of(DnnType::fp16, s, strides, &strides);
  ASSERT_TRUE(of);
  EXPECT_EQ(of->heads, 8);
  EXPECT_EQ(of->keyHeads, 2);
  EXPECT_EQ(of->k.head, 64);
  EXPECT_EQ(of->q.head, 64);

  strides.k.group = strides.v.group = 0;
  of = dnn_attention_of(DnnType::fp16, s, strides, &strides);
  ASSERT_TRUE(of);
  EXPECT_EQ(of->keyHeads, 1);
}

TEST(DnnAttentionShape, StridesThatDoNotFit) {
  const AttentionShape s = {2, 2, 4, 64, 64, 64, 64, 0.125, true};
  const auto isCovered = [&](auto change, bool ofGradient = false) {
    AttentionStrides strides = storages(s), grads = strides;
    change(ofGradient ? grads : strides);
    return dnn_attention_of(DnnType::bf16, s, strides, &grads).has_value();
  };
  EXPECT_TRUE(isCovered([](AttentionStrides &) {}));
  EXPECT_TRUE(isCovered([](AttentionStrides &x) { x.q.row *= 3, x.q.batch *= 3; })); // of q, k and v in one buffer
  EXPECT_FALSE(isCovered([](AttentionStrides &x) { x.k.head = 0; }));                // whose derivative is not summed
  EXPECT_FALSE(isCovered([](AttentionStrides &x) { x.k.head = 0; }, true));
  EXPECT_FALSE(isCovered([](AttentionStrides &x) { x.k.group = x.v.group = 0; }));
  EXPECT_FALSE(isCovered([](AttentionStrides &x) { x.q.head = 0; }));
  EXPECT_FALSE(isCovered([](AttentionStrides &x) { x.q.batch = 0; }));
  EXPECT_FALSE(isCovered([](AttentionStrides &x) { x.q.group += 8; })); // the step between groups is another
  EXPECT_FALSE(isCovered([](AttentionStrides &x) { x.out.row += 4; }));
  EXPECT_FALSE(isCovered([](AttentionStrides &x) { x.q.batch = 0; }, true));
  EXPECT_FALSE(isCovered([](AttentionStrides &x) { x.out.batch += 1; }, true));
}

//===-- the choice -----------------------------------------------------------------------------------------------===//

/// A choice with a stand-in, and what it has said.
struct Chosen {
  StandIn::State library;
  std::vector<std::string> said;
  std::unique_ptr<OnDevice<float>> memory;
  size_t mostScratch = 0;
  DnnChoice choice;
  DnnChoice::Scratch scratch = [this](size_t bytes) {
    if (!memory || bytes > mostScratch) { // as a rank's, which grows
      mostScratch = bytes;
      memory = std::make_unique<OnDevice<float>>(std::vector<float>(bytes / sizeof(float) + 1));
    }
    return static_cast<void *>(memory->get());
  };

  explicit Chosen(Fault fault = Fault::none)
      : choice([this](std::string &) { return std::make_unique<StandIn>(library); },
               [this](const std::string &line) { said.push_back(line); }, true) {
    library.fault = fault;
  }
  bool hasSaid(const std::string &text) const {
    return std::any_of(said.begin(), said.end(),
                       [&](const std::string &line) { return line.find(text) != std::string::npos; });
  }
};

/// Operands and results of a call.
template <typename T> struct Call {
  AttentionShape shape;
  AttentionStrides strides;
  OnDevice<T> q, k, v, dout, out, dq, dk, dv;
  OnDevice<float> maximum, sum, scratch;

  explicit Call(const AttentionShape &s, bool keyHeads = true)
      : shape(s), strides(storages(s, keyHeads)), q(random(s.batch * strides.q.batch, 1)),
        k(random(s.batch * strides.k.batch, 2)), v(random(s.batch * strides.v.batch, 3)),
        dout(random(s.batch * strides.out.batch, 4)), out(nines(s.batch * strides.out.batch)),
        dq(nines(s.batch * strides.q.batch)), dk(nines(s.batch * strides.k.batch)),
        dv(nines(s.batch * strides.v.batch)), maximum(std::vector<float>(queries(), 9)),
        sum(std::vector<float>(queries(), 9)),
        scratch(std::vector<float>(static_cast<size_t>(attention_grad_scratch(s, strides)), 9)) {}
  size_t queries() const { return static_cast<size_t>(shape.batch * shape.group * shape.head * shape.seq); }
  static std::vector<T> random(int64_t n, int seed) { return randomValues<T>(n, seed); }
  static std::vector<T> nines(int64_t n) { return std::vector<T>(static_cast<size_t>(n), T(9.0f)); }

  bool forward(Chosen &by, Stream stream = nullptr) {
    return by.choice.attention<T>(stream, by.scratch, out.get(), maximum.get(), sum.get(), q.get(), k.get(), v.get(),
                                  shape, strides);
  }
  bool gradient(Chosen &by, Stream stream = nullptr) {
    return by.choice.attention_grad<T>(stream, by.scratch, dq.get(), dk.get(), dv.get(), dout.get(), out.get(),
                                       maximum.get(), sum.get(), q.get(), k.get(), v.get(), shape, strides, strides);
  }
  void ownForward() {
    attention<T>(nullptr, out.get(), maximum.get(), sum.get(), q.get(), k.get(), v.get(), shape, strides);
  }
  void ownGradient() {
    attention_grad<T>(nullptr, dq.get(), dk.get(), dv.get(), nullptr, dout.get(), out.get(), maximum.get(), sum.get(),
                      q.get(), k.get(), v.get(), shape, strides, strides, nullptr, nullptr, scratch.get());
  }
};

/// Results of T, each near those of our own kernels from both passes.
template <typename T> void expectOwn(const Call<T> &got, const AttentionShape &s, bool keyHeads) {
  Call<T> own(s, keyHeads);
  own.ownForward();
  own.ownGradient();
  const double near = std::is_same_v<T, bf16> ? 0.04 : 0.005;
  expectNear(got.out.host(), own.out.host(), near, "out");
  expectNear(got.dq.host(), own.dq.host(), near, "dq");
  expectNear(got.dk.host(), own.dk.host(), near, "dk");
  expectNear(got.dv.host(), own.dv.host(), near, "dv");
}

template <typename T> void expectTaken(const AttentionShape &s, bool keyHeads = true) {
  Chosen by;
  Call<T> call(s, keyHeads);
  ASSERT_TRUE(call.forward(by));
  ASSERT_TRUE(call.gradient(by));
  EXPECT_TRUE(by.hasSaid("by stand-in 1.0, within "));
  EXPECT_EQ(call.sum.host(), std::vector<float>(call.queries(), 1.0f));
  expectOwn(call, s, keyHeads);
  const int plans = by.library.plans, runs = by.library.runs;
  ASSERT_TRUE(call.forward(by));
  ASSERT_TRUE(call.gradient(by));
  EXPECT_EQ(by.library.plans, plans); // they are kept
  EXPECT_EQ(by.library.runs, runs + 2);
  EXPECT_EQ(by.said.size(), 2u);
}

TEST(DnnChoice, TakesARightLibrary) {
  underSeeds([] {
    expectTaken<bf16>(kCausal);
    expectTaken<fp16>(kCausal);
    expectTaken<bf16>({1, 1, 1, 70, 90, 8, 24, 0.3, false});
  });
}

// Grouped queries; then the second of three parts of a sequence, whose last keys nobody sees: their derivatives are 0.
TEST(DnnChoice, GroupsAndParts) {
  underSeeds([] {
    expectTaken<bf16>({1, 2, 2, 64, 64, 8, 8, 0.35, true}, false);
    expectTaken<fp16>({2, 1, 1, 64, 192, 8, 8, 0.35, true, 64});
  });
}

/// Neither pass is taken, for a reason; a second call does not try again.
template <typename T> void expectRefused(Fault fault, const AttentionShape &s, const std::string &why, bool keyHeads) {
  SCOPED_TRACE(why);
  Chosen by(fault);
  Call<T> call(s, keyHeads);
  EXPECT_FALSE(call.forward(by));
  ASSERT_EQ(by.said.size(), 1u);
  EXPECT_TRUE(by.hasSaid("our own kernels do: ")) << by.said[0];
  EXPECT_TRUE(by.hasSaid(why)) << by.said[0];
  EXPECT_EQ(call.out.host(), Call<T>::nines(s.batch * call.strides.out.batch)); // nothing is written
  const int plans = by.library.plans;
  EXPECT_FALSE(call.forward(by));
  EXPECT_EQ(by.library.plans, plans);
  EXPECT_EQ(by.said.size(), 1u);

  call.ownForward();
  EXPECT_FALSE(call.gradient(by));
  EXPECT_EQ(by.said.size(), 2u);
  EXPECT_EQ(call.dq.host(), Call<T>::nines(s.batch * call.strides.q.batch));
}

TEST(DnnChoice, RefusesAWrongLibrary) {
  const AttentionShape grouped = {1, 2, 2, 64, 64, 8, 8, 0.35, true};
  expectRefused<bf16>(Fault::shifted, kCausal, "the result differs", true);
  expectRefused<fp16>(Fault::shifted, {1, 1, 1, 64, 128, 8, 8, 0.35, true, 64}, "the result differs", true);
  expectRefused<bf16>(Fault::scaled, kCausal, "the result differs", true);
  expectRefused<bf16>(Fault::mapped, grouped, "the result differs", false);
  expectRefused<bf16>(Fault::unwritten, kCausal, "the result differs", true);
  expectRefused<bf16>(Fault::base2, kCausal, "the logarithm of the sum differs", true);
  expectRefused<bf16>(Fault::restless, kCausal, "results differ from one run to the next", true);
  expectRefused<bf16>(Fault::refuses, kCausal, "not supported", true);
  expectRefused<bf16>(Fault::fails, kCausal, "execution failed", true);
}

// What one way keeps the other way's derivative can use.
TEST(DnnChoice, PassesMix) {
  Call<bf16> ownThenLibrary(kCausal), libraryThenOwn(kCausal);
  Chosen by;
  ownThenLibrary.ownForward();
  ASSERT_TRUE(ownThenLibrary.gradient(by));
  expectOwn(ownThenLibrary, kCausal, true);
  ASSERT_TRUE(libraryThenOwn.forward(by));
  libraryThenOwn.ownGradient();
  expectOwn(libraryThenOwn, kCausal, true);
}

// A library that was right and then fails: the call, and all later ones, are for our own kernels.
TEST(DnnChoice, FailsLater) {
  Chosen by;
  Call<bf16> call(kCausal);
  ASSERT_TRUE(call.forward(by));
  by.library.fault = Fault::fails;
  EXPECT_FALSE(call.forward(by));
  EXPECT_TRUE(by.hasSaid("has failed"));
  by.library.fault = Fault::none;
  EXPECT_FALSE(call.forward(by));
  EXPECT_EQ(by.said.size(), 2u);
}

// A derivative for which all samples at once need too much memory is computed for some at a time.
TEST(DnnChoice, SamplesTakeTurns) {
  AttentionShape s = kCausal;
  s.batch = 6;
  Chosen by;
  by.choice.workspace = 3500;
  by.library.workspaceOfSample = 1000;
  Call<bf16> call(s);
  ASSERT_TRUE(call.forward(by));
  by.library.runs = 0;
  ASSERT_TRUE(call.gradient(by));
  EXPECT_EQ(by.library.runs, 4); // the trial, twice, and 3 of 6 samples, twice
  EXPECT_TRUE(by.hasSaid("3 samples at a time"));
  EXPECT_LE(by.mostScratch, 3000 + 256 + call.queries() * sizeof(float));
  expectOwn(call, s, true);
}

TEST(DnnChoice, TooMuchMemory) {
  Chosen by;
  by.choice.workspace = by.choice.mostWorkspace = 1 << 20;
  by.library.workspaceOfSample = 5 << 20;
  Call<bf16> call(kCausal);
  EXPECT_FALSE(call.forward(by));
  EXPECT_TRUE(by.hasSaid("a workspace of 5 MB"));
}

// Plans are not made while a stream is captured, and what is known then is used.
TEST(DnnChoice, Capture) {
  Stream stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  const auto captured = [&](auto body) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    body();
    check(cudaStreamEndCapture(stream, &graph), "capture");
    check(cudaGraphDestroy(graph), "capture");
  };
  Chosen by;
  Call<bf16> call(kCausal);
  captured([&] { EXPECT_FALSE(call.forward(by, stream)); });
  EXPECT_EQ(by.library.plans, 0);
  EXPECT_TRUE(call.forward(by, stream));
  const int runs = by.library.runs;
  check(cudaStreamSynchronize(stream), "wait");
  captured([&] { EXPECT_TRUE(call.forward(by, stream)); });
  EXPECT_EQ(by.library.runs, runs + 1);
  check(cudaStreamDestroy(stream), "stream");
}

TEST(DnnChoice, NoLibrary) {
  std::vector<std::string> said;
  Chosen by;
  by.choice = DnnChoice(
      [](std::string &why) {
        why = "libcudnn.so.9: not found";
        return nullptr;
      },
      [&](const std::string &line) { said.push_back(line); }, false);
  Call<bf16> call(kCausal);
  EXPECT_FALSE(call.forward(by));
  EXPECT_FALSE(call.gradient(by));
  ASSERT_EQ(said.size(), 1u); // once
  EXPECT_NE(said[0].find("libcudnn.so.9: not found"), std::string::npos);
}

//===-- convolutions ---------------------------------------------------------------------------------------------===//

/// Operands of a convolution, and its result of a kind by our own kernels.
struct ConvCall {
  ConvShape shape;
  ConvKind kind;
  OnDevice<float> first, second, result, own, scratch;
  Blas blas;

  ConvCall(const ConvShape &s, ConvKind kind)
      : shape(s), kind(kind), first(randomValues<float>(sizeOf(s, kind != ConvKind::forward ? 'y' : 'x'), 1)),
        second(randomValues<float>(sizeOf(s, kind == ConvKind::gradWeights ? 'x' : 'w'), 2)),
        result(std::vector<float>(count(), 9)), own(std::vector<float>(count(), 9)),
        scratch(std::vector<float>(static_cast<size_t>(conv_scratch(s, kind)) + 1)) {
    const int64_t scratchCount = conv_scratch(s, kind);
    if (kind == ConvKind::forward)
      conv(blas, nullptr, own.get(), first.get(), second.get(), s, scratch.get(), scratchCount);
    else if (kind == ConvKind::gradData)
      conv_grad_data(blas, nullptr, own.get(), first.get(), second.get(), s, scratch.get(), scratchCount);
    else
      conv_grad_weights(blas, nullptr, own.get(), second.get(), first.get(), s, scratch.get(), scratchCount);
  }
  static int64_t sizeOf(const ConvShape &s, char of) {
    const ConvColumns c(s, ConvKind::forward);
    return of == 'x' ? s.batch * s.from * c.in : of == 'w' ? s.to * c.inner : s.batch * s.to * c.out;
  }
  size_t count() const {
    return static_cast<size_t>(sizeOf(shape, kind == ConvKind::forward ? 'y' : kind == ConvKind::gradData ? 'x' : 'w'));
  }
  bool run(Chosen &by) {
    return by.choice.conv(blas, nullptr, by.scratch, first.get(), second.get(), result.get(), shape, kind);
  }
};
constexpr ConvKind kKinds[] = {ConvKind::forward, ConvKind::gradData, ConvKind::gradWeights};
constexpr ConvShape kConv = {3, 16, 16, 2, {{20, 3, 1, 1, 1}, {20, 3, 2, 0, 1}}};

// Two window dimensions, and one, of which the library is given two.
TEST(DnnConv, TakesARightLibrary) {
  setSeed(1); // streams run as late as they may
  for (const ConvShape &shape : {kConv, ConvShape{3, 16, 16, 1, {{300, 5, 1, 2, 1}}}})
    for (ConvKind kind : kKinds) {
      Chosen by;
      ConvCall call(shape, kind);
      ASSERT_TRUE(call.run(by));
      EXPECT_TRUE(by.hasSaid("by stand-in 1.0"));
      expectNear(call.result.host(), call.own.host(), 1e-4);
      EXPECT_EQ(by.library.runs, 3); // the trial, twice
      ASSERT_TRUE(call.run(by));
      EXPECT_EQ(by.library.runs, 4);
      EXPECT_EQ(by.library.plans, 2);
    }
  EXPECT_EQ(racesFound(), 0);
}

// Rounded operands, as of tf32, and zeros at the other end.
TEST(DnnConv, RefusesAWrongLibrary) {
  for (Fault fault : {Fault::rounded, Fault::shifted})
    for (ConvKind kind : kKinds) {
      Chosen by(fault);
      ConvCall call(kConv, kind);
      EXPECT_FALSE(call.run(by));
      EXPECT_TRUE(by.hasSaid("the result differs"));
      EXPECT_FALSE(call.run(by));
      EXPECT_EQ(by.library.plans, 1);
      EXPECT_EQ(call.result.host(), std::vector<float>(call.count(), 9));
    }
}

// What is one product of matrices, small, in four dimensions, or cuts x off stays with our own kernels.
TEST(DnnConv, Shapes) {
  const auto isTaken = [](const ConvShape &shape) {
    Chosen by;
    return ConvCall(shape, ConvKind::forward).run(by);
  };
  EXPECT_TRUE(isTaken({1, 8, 8, 3, {{9, 3, 1, 1, 1}, {9, 3, 1, 1, 1}, {9, 3, 1, 1, 1}}}));
  EXPECT_FALSE(isTaken({4, 32, 32, 2, {{20, 1, 1, 0, 0}, {20, 1, 1, 0, 0}}}));
  EXPECT_FALSE(isTaken({3, 4, 4, 2, {{20, 3, 1, 1, 1}, {20, 3, 1, 1, 1}}}));
  EXPECT_FALSE(isTaken({1, 4, 4, 4, {{6, 3, 1, 1, 1}, {6, 3, 1, 1, 1}, {6, 3, 1, 1, 1}, {6, 2, 1, 0, 1}}}));
  EXPECT_FALSE(isTaken({3, 16, 16, 2, {{20, 3, 1, 1, 1}, {22, 3, 1, -1, 1}}}));
}

// On emulated GPUs there is no cuDNN, and nothing is said.
TEST(DnnChoice, Emulation) {
  std::string why;
  EXPECT_EQ(openDnnForDevice(why), nullptr);
  EXPECT_EQ(why, "");
}

} // namespace
} // namespace echelon::cuda
