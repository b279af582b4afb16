#include "codegen/Kernels.h"
#include "codegen/Expression.h"
#include "codegen/Text.h"
#include "ir/ech/Build.h"
#include "ir/ech/SourcePlace.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;
using rt::SizeAttr;

namespace {
std::string braced(ArrayRef<std::string> items) { return "{" + llvm::join(items, ", ") + "}"; }
std::string braced(ArrayRef<int64_t> numbers) {
  return braced(llvm::map_to_vector(numbers, [](int64_t n) { return std::to_string(n); }));
}
/// Numbers in groups: {{…}, {…}}.
std::string grouped(ArrayRef<int64_t> numbers, size_t each) {
  SmallVector<std::string> groups;
  for (; !numbers.empty(); numbers = numbers.drop_front(each))
    groups.push_back(braced(numbers.take_front(each)));
  return braced(groups);
}
std::string real(double x, MLIRContext *context) { return literal(x, Float64Type::get(context)); }

/// Fills the arguments of a call, in the order of the runtime's function.
class Arguments {
public:
  Arguments(Call &call, Printer &printer) : call(call), printer(printer) {}
  Arguments &operator<<(Value v) { return *this << (v ? printer.name(v) : std::string("nullptr")); }
  Arguments &operator<<(ValueRange values) {
    for (Value v : values)
      *this << v;
    return *this;
  }
  Arguments &operator<<(SizeAttr size) { return *this << text(size); }
  Arguments &operator<<(int64_t n) { return *this << std::to_string(n); }
  Arguments &operator<<(const std::string &text) {
    call.arguments.push_back(text);
    return *this;
  }
  Arguments &operator<<(const char *text) { return *this << std::string(text); }
  /// All elements of a buffer.
  Arguments &countOf(Value v) { return *this << count(v); }
  /// A first position, 0 where there is none.
  Arguments &first(Value v) { return v ? *this << v : *this << int64_t(0); }
  std::string text(SizeAttr size) {
    if (size.getAxes().size() == 1 && size.getAxes()[0].name.empty()) // of no axis
      return std::to_string(size.count());
    return printer.size(size.getAxes());
  }
  std::string name(Value v) { return printer.name(v); }
  std::string count(Value v) { return printer.size(rt::buffer(v).getAxes()); }

private:
  Call &call;
  Printer &printer;
};

SmallVector<SizeAttr> sizesOf(ArrayAttr list) { return llvm::to_vector(list.getAsRange<SizeAttr>()); }

//===- what each kernel is called with ---------------------------------------------------------------------------===//

void spell(rt::FillOp op, Arguments &to) {
  to << op.getY();
  const Type element = rt::buffer(op.getY()).getElement();
  const double value = op.getValue().convertToDouble();
  to.countOf(op.getY()) << (element.isInteger(1) ? value != 0 ? "uint8_t(1)" : "uint8_t(0)" : literal(value, element));
}
void spell(rt::CopyStridedOp op, Arguments &to) {
  SmallVector<int64_t> toStrides, strides, sizes;
  rt::Buffer y = rt::buffer(op.getY()), x = rt::buffer(op.getX());
  for (const ech::Axis &axis : y.getAxes()) {
    toStrides.push_back(y.strideOf(axis.name));
    strides.push_back(x.strideOf(axis.name));
    sizes.push_back(axis.size);
  }
  to << op.getY() << braced(toStrides) << op.getX() << braced(strides) << braced(sizes);
}
void spell(rt::GemmOp op, Arguments &to) {
  auto library = [&] { // of a CPU
    if (op.getBlas())
      to << "Blas::" + rt::stringifyBlas(*op.getBlas()).str();
  };
  to << op.getC() << op.getA() << op.getB();
  if (op.getBias())
    to << op.getBias();
  to << op.getM() << op.getN() << op.getK()
     << std::string("Form::") + (op.getTransA() ? "t" : "n") + (op.getTransB() ? "t" : "n");
  const bool isDense = op.getLda().count() == (op.getTransA() ? op.getM() : op.getK()).count() &&
                       op.getLdb().count() == (op.getTransB() ? op.getK() : op.getN()).count() &&
                       op.getLdc().count() == op.getN().count();
  if (isDense && op.getBatch().empty()) {
    library();
    if (op.getAdds())
      to << "1.0";
    return;
  }
  to << op.getLda() << op.getLdb() << op.getLdc();
  if (op.getBias())
    return;
  if (!op.getBatch().empty())
    to << grouped(op.getBatch(), 4);
  to << "1.0" << (op.getAdds() ? "1.0" : "0.0");
  library();
}

/// The first and one past the last position of each gathered axis that this rank holds.
template <typename Op> SmallVector<std::pair<std::string, std::string>> bounds(Op op, Arguments &to, bool narrow) {
  SmallVector<std::pair<std::string, std::string>> all;
  size_t next = 0;
  auto cast = [&](Value v) { return narrow ? "static_cast<int32_t>(" + to.name(v) + ")" : to.name(v); };
  for (auto [size, bounded] : llvm::zip(op.getSizes(), op.getBounded())) {
    if (!bounded) {
      all.push_back({"0", std::to_string(size)});
      continue;
    }
    std::string lower = cast(op.getLower()[next]);
    all.push_back({lower, cast(op.getUpper()[next++])});
  }
  return all;
}
/// Of tables, where one index picks rows: how many, how long, and bounds.
template <typename Op> void rows(Op op, Value values, Arguments &to) {
  rt::Buffer index = rt::buffer(op.getIndices()[0]);
  auto inRow =
      llvm::filter_to_vector(rt::buffer(values).getAxes(), [&](const ech::Axis &a) { return !index.has(a.name); });
  to << SizeAttr::get(op.getContext(), index.getAxes()) << SizeAttr::get(op.getContext(), inRow);
  auto [lower, upper] = bounds(op, to, false)[0];
  to << lower << upper;
}
/// In general: dimensions of the values with the table's strides; the indices.
template <typename Op> void anywhere(Op op, Value table, Value values, Arguments &to) {
  rt::Buffer of = rt::buffer(table), type = rt::buffer(values);
  auto axes = ech::strings(op.getAxes());
  SmallVector<std::string> dims, indices;
  for (const ech::Axis &a : type.getAxes())
    dims.push_back(braced({a.size, llvm::is_contained(axes, a.name.getValue()) ? 0 : of.strideOf(a.name)}));
  for (auto [axis, index, bound] : llvm::zip(axes, op.getIndices(), bounds(op, to, true))) {
    SmallVector<int64_t> strides;
    for (const ech::Axis &a : type.getAxes())
      strides.push_back(rt::buffer(index).strideOf(a.name));
    indices.push_back(braced(SmallVector<std::string>{to.name(index), braced(strides),
                                                      std::to_string(of.strideOf(axis)), bound.first, bound.second}));
  }
  to << braced(dims) << braced(indices);
}
void spell(rt::GatherOp op, Arguments &to) {
  to << op.getY() << op.getTable();
  if (op.getRows()) {
    to << op.getIndices();
    rows(op, op.getY(), to);
  } else {
    anywhere(op, op.getTable(), op.getY(), to);
  }
}
void spell(rt::ScatterAddOp op, Arguments &to) {
  to << op.getTable() << op.getValues();
  if (op.getRows()) {
    to << op.getIndices();
    rows(op, op.getValues(), to);
  } else {
    anywhere(op, op.getTable(), op.getValues(), to);
  }
}
void spell(rt::RandomOp op, Arguments &to) {
  SmallVector<std::string> dims;
  auto offset = op.getOffsets().begin();
  for (auto [size, stride, moved] : llvm::zip(op.getSizes(), op.getStrides(), op.getMoved()))
    dims.push_back(braced(
        SmallVector<std::string>{std::to_string(size), moved ? to.name(*offset++) : "0", std::to_string(stride)}));
  MLIRContext *context = op.getContext();
  to << op.getY() << "r.randomKey(path_hash(" + quoted(op.getSite()) + "))"
     << (op.getNormal() ? "Distribution::Normal" : "Distribution::Uniform")
     << real(op.getA().convertToDouble(), context) << real(op.getB().convertToDouble(), context) << braced(dims);
}

void spell(rt::ReduceOp op, Arguments &to) {
  to << op.getY() << op.getX() << op.getOuter() << op.getN() << op.getInner();
  if (op.getAdds())
    to << "true";
}
void spell(rt::SoftmaxOp op, Arguments &to) {
  to << op.getY() << op.getX() << op.getOuter() << op.getN() << op.getInner();
}
void spell(rt::LogSumExpOp op, Arguments &to) {
  to << op.getY() << op.getShift() << op.getLogSum() << op.getX() << op.getOuter() << op.getN() << op.getInner();
}
void spell(rt::CumSumOp op, Arguments &to) {
  to << op.getY() << op.getX() << op.getOuter() << op.getN() << op.getInner();
  if (op.getReverse())
    to << "true";
}
void spell(rt::OrthogonalizeOp op, Arguments &to) {
  to << op.getY() << op.getX() << op.getOuter() << op.getN() << op.getInner();
}
void spell(rt::TopKOp op, Arguments &to) {
  to << op.getY() << op.getX() << op.getOuter() << op.getN() << op.getInner() << static_cast<int64_t>(op.getK());
}
void spell(rt::CrossEntropyOp op, Arguments &to) {
  to << op.getLoss() << op.getShift() << op.getLogSum();
  if (op.getMass())
    to << op.getMass();
  to << op.getX() << op.getLabels() << op.getRows() << op.getN();
  if (op.getLd())
    to << *op.getLd();
}
void spell(rt::AddSquaresOp op, Arguments &to) {
  to << op.getSum() << op.getX();
  to.countOf(op.getX());
  auto weights = llvm::map_to_vector(op.getWeights(), [&](Value v) { return to.name(v); });
  if (!weights.empty())
    to << llvm::join(weights, " * ");
}
void spell(rt::NormalizeOp op, Arguments &to) {
  to << op.getY() << op.getRstd() << op.getX() << op.getRows() << op.getN()
     << real(op.getEpsilon().convertToDouble(), op.getContext()) << op.getStatistics();
}
void spell(rt::ChannelStatisticsOp op, Arguments &to) {
  to << op.getRstd() << op.getX() << op.getOuter() << op.getChannels() << op.getInner()
     << real(op.getEpsilon().convertToDouble(), op.getContext()) << op.getStatistics();
}
void spell(rt::NormalizeGradOp op, Arguments &to) {
  to << op.getDx() << op.getDy() << op.getY() << op.getRstd() << op.getRows() << op.getN();
}

void spell(rt::PartialOp op, Arguments &to) {
  to << op.getOuts() << op.getInputs();
  for (SizeAttr size : sizesOf(op.getSizes()))
    to << size;
  if (op.getKind() == rt::PartialKind::Largest || op.getKind() == rt::PartialKind::CrossEntropy)
    to.first(op.getFirst());
}
void spell(rt::CombineOp op, Arguments &to) {
  // statistics of a norm come last
  const size_t results = op.getKind() == rt::CombineKind::Normalize    ? 2
                         : op.getKind() == rt::CombineKind::Statistics ? 1
                                                                       : op.getOuts().size();
  to << op.getOuts().take_front(results) << op.getInputs();
  for (SizeAttr size : sizesOf(op.getSizes()))
    to << size;
  if (op.getTotal())
    to << static_cast<int64_t>(*op.getTotal());
  if (op.getEpsilon())
    to << real(op.getEpsilon()->convertToDouble(), op.getContext());
  to << op.getOuts().drop_front(results);
}

void spell(rt::ConvOp op, Arguments &to) {
  to << op.getResult() << op.getLhs() << op.getRhs()
     << braced(SmallVector<std::string>{to.text(op.getBatch()), to.text(op.getFrom()), to.text(op.getTo()),
                                        std::to_string(op.getDims().size() / 5), grouped(op.getDims(), 5)});
  if (op.getScratch()) {
    to << op.getScratch();
    to.countOf(op.getScratch());
  }
}
std::string planes(SizeAttr planes, ArrayRef<int64_t> dims, Arguments &to) {
  return braced(SmallVector<std::string>{to.text(planes), std::to_string(dims.size() / 5), grouped(dims, 5)});
}
void spell(rt::PoolOp op, Arguments &to) {
  to << op.getY();
  if (op.getMax())
    to << op.getIndex();
  to << op.getX() << planes(op.getPlanes(), op.getDims(), to);
}
void spell(rt::PoolGradOp op, Arguments &to) {
  to << op.getDx() << op.getDy();
  if (op.getIndex())
    to << op.getIndex();
  to << planes(op.getPlanes(), op.getDims(), to);
}

/// How far queries begin behind keys; where keys go round, that follows from the positions of both.
template <typename Op> std::string firstKey(Op op, Arguments &to) {
  if constexpr (llvm::is_one_of<Op, rt::AttentionOp, rt::AttentionGradOp>::value)
    return op.getBetween() ? to.name(op.getBetween()) : "0";
  return "0";
}
template <typename Op> std::string attentionShape(Op op, Arguments &to) {
  SmallVector<std::string> shape;
  for (SizeAttr size : sizesOf(op.getSizes()))
    shape.push_back(to.text(size));
  shape.push_back(real(op.getScale().convertToDouble(), op.getContext()));
  shape.push_back(op.getCausal() ? "true" : "false");
  shape.push_back(firstKey(op, to));
  shape.push_back(braced(op.getMaskStrides()));
  shape.push_back(braced(op.getBiasStrides()));
  return braced(shape);
}
template <typename Op> void maskAndBias(Op op, Arguments &to) {
  if (op.getMask() || op.getBias())
    to << op.getMask();
  if (op.getBias())
    to << op.getBias();
}
void spell(rt::AttentionOp op, Arguments &to) {
  to << op.getY() << op.getMaximum() << op.getSum() << op.getQ() << op.getK() << op.getV() << attentionShape(op, to)
     << grouped(op.getStrides(), 4);
  maskAndBias(op, to);
}
template <typename Op> void cotangentOfBias(Op op, Arguments &to) {
  if (op.getDbias())
    to << op.getDbias();
  else // a bare nullptr would leave the element type open
    to << ("static_cast<" + rt::storedAs(rt::buffer(op.getDq()).getElement()) + " *>(nullptr)").str();
}
void spell(rt::AttentionGradOp op, Arguments &to) {
  to << op.getDq() << op.getDk() << op.getDv();
  cotangentOfBias(op, to);
  to << op.getDy() << op.getY() << op.getMaximum() << op.getSum() << op.getQ() << op.getK() << op.getV()
     << attentionShape(op, to) << grouped(op.getStrides(), 4) << grouped(op.getGradStrides(), 4);
  maskAndBias(op, to);
}

/// The ranks, and which positions they hold.
template <typename Op> void ranksOfRing(Op op, Arguments &to) {
  to << "r" << "r.group(" + std::to_string(op->template getAttrOfType<IntegerAttr>(rt::kGroup).getInt()) + ")";
}
template <typename Op> std::string ringOf(Op op, Arguments &to) {
  SmallVector<std::string> queries;
  for (auto [i, size] : llvm::enumerate(sizesOf(op.getQueryRuns())))
    queries.push_back(braced({to.text(size), op.getCausal() ? to.name(op.getBegins()[i]) : "0"}));
  return braced({to.count(op.getK()), to.count(op.getV()), braced(queries), grouped(op.getKeyRuns(), 3)});
}
void placeOf(Operation *op, Arguments &to) { to << quoted(ech::sourcePlace(op->getLoc())); }
void spell(rt::RingAttentionOp op, Arguments &to) {
  ranksOfRing(op, to);
  to << op.getY() << op.getMaximum() << op.getSum() << op.getKeys() << op.getValues() << op.getQ() << op.getK()
     << op.getV() << ringOf(op, to) << attentionShape(op, to) << grouped(op.getStrides(), 4);
  placeOf(op, to);
  maskAndBias(op, to);
}
void spell(rt::RingAttentionGradOp op, Arguments &to) {
  ranksOfRing(op, to);
  to << op.getDq() << op.getDk() << op.getDv();
  cotangentOfBias(op, to);
  to << op.getKeys() << op.getValues() << op.getDkeys() << op.getDvalues() << op.getDy() << op.getY() << op.getMaximum()
     << op.getSum() << op.getQ() << op.getK() << op.getV() << ringOf(op, to) << attentionShape(op, to)
     << grouped(op.getStrides(), 4) << grouped(op.getGradStrides(), 4);
  placeOf(op, to);
  maskAndBias(op, to);
}

//===- what each kernel is called --------------------------------------------------------------------------------===//

std::string functionOf(rt::PartialOp op) {
  switch (op.getKind()) {
  case rt::PartialKind::SumExp:
    return "local_sum_exp";
  case rt::PartialKind::Largest:
    return "max_with_index";
  case rt::PartialKind::CrossEntropy:
    return "cross_entropy_local";
  case rt::PartialKind::CrossEntropyTarget:
    return "cross_entropy_target_local";
  case rt::PartialKind::Moments:
    return "local_moments";
  case rt::PartialKind::Squares:
    return "rms_local";
  case rt::PartialKind::NormSums:
    return "normalize_grad_local";
  case rt::PartialKind::RmsSums:
    return "rms_grad_local";
  }
  llvm_unreachable("of all kinds");
}
std::string functionOf(rt::CombineOp op) {
  switch (op.getKind()) {
  case rt::CombineKind::Softmax:
    return "softmax_finish";
  case rt::CombineKind::LogSumExp:
    return "logsumexp_finish";
  case rt::CombineKind::CrossEntropy:
    return "cross_entropy_finish";
  case rt::CombineKind::CrossEntropyTarget:
    return "cross_entropy_target_finish";
  case rt::CombineKind::Largest:
    return "place_of_largest";
  case rt::CombineKind::Moments:
    return "combine_moments";
  case rt::CombineKind::Normalize:
    return "normalize_finish";
  case rt::CombineKind::Statistics:
    return "channel_statistics_finish";
  case rt::CombineKind::RmsNormalize:
    return "rms_finish";
  case rt::CombineKind::NormalizeGrad:
    return "normalize_grad_finish";
  case rt::CombineKind::RmsGrad:
    return "rms_grad_finish";
  }
  llvm_unreachable("of all kinds");
}
std::string functionOf(rt::GemmOp op) {
  return op.getBias() ? "linear" : op.getBatch().empty() ? "gemm" : "gemm_batched";
}
std::string functionOf(rt::GatherOp op) { return op.getRows() ? "gather_rows" : "gather"; }
std::string functionOf(rt::ScatterAddOp op) { return op.getRows() ? "scatter_add_rows" : "scatter_add"; }
std::string functionOf(rt::RandomOp) { return "fill_random"; }
std::string functionOf(rt::CrossEntropyOp op) { return op.getMass() ? "cross_entropy_target" : "cross_entropy"; }
std::string functionOf(rt::NormalizeGradOp op) { return op.getRms() ? "rms_normalize_grad" : "normalize_grad"; }
std::string functionOf(rt::ConvOp op) {
  return op.getKind() == rt::ConvKind::Forward    ? "conv"
         : op.getKind() == rt::ConvKind::GradData ? "conv_grad_data"
                                                  : "conv_grad_weights";
}
std::string functionOf(rt::PoolOp op) { return op.getMax() ? "maxpool" : "avgpool"; }
std::string functionOf(rt::PoolGradOp op) { return op.getIndex() ? "maxpool_grad" : "avgpool_grad"; }
template <typename Op> std::string functionOf(Op op) { return rt::kernelName(op); }
} // namespace

Call codegen::callOf(Operation *kernel, Printer &printer, StringRef first) {
  Call call;
  Arguments to(call, printer);
  if (!first.empty())
    to << first.str();
  auto squares = dyn_cast<rt::AddSquaresOp>(kernel);
  llvm::TypeSwitch<Operation *>(kernel)
      .Case<rt::FillOp, rt::CopyStridedOp, rt::GemmOp, rt::GatherOp, rt::ScatterAddOp, rt::RandomOp, rt::ReduceOp,
            rt::SoftmaxOp, rt::LogSumExpOp, rt::CumSumOp, rt::OrthogonalizeOp, rt::TopKOp, rt::CrossEntropyOp,
            rt::AddSquaresOp, rt::NormalizeOp, rt::ChannelStatisticsOp, rt::NormalizeGradOp, rt::PartialOp,
            rt::CombineOp, rt::ConvOp, rt::PoolOp, rt::PoolGradOp, rt::AttentionOp, rt::AttentionGradOp,
            rt::RingAttentionOp, rt::RingAttentionGradOp>([&](auto op) {
        call.function = functionOf(op);
        spell(op, to);
      })
      .DefaultUnreachable("every kernel has a call");
  if (squares && squares.getParameter()) // the sum is looked at as it is made
    return {"r.watch", {quoted(*squares.getParameter()), call.function + "(" + llvm::join(call.arguments, ", ") + ")"}};
  return call;
}

std::string codegen::textOf(rt::NumberOp number) {
  switch (number.getKind()) {
  case rt::Number::LearningRate:
    return number.getOf() ? "learning_rate_" + std::to_string(*number.getOf()) + "(r.step())" : "lr";
  case rt::Number::BiasCorrection:
    return "1 - std::pow(" + real(number.getBy()->convertToDouble(), number.getContext()) +
           ", static_cast<double>(r.updates()))";
  case rt::Number::AverageDecay:
    return "average_decay(" + real(number.getBy()->convertToDouble(), number.getContext()) + ", r.averagings())";
  case rt::Number::LossScale:
    return "r.lossScale()";
  case rt::Number::HandInWeight:
    return "r.handInWeight()";
  case rt::Number::IsFirstIn:
    return "r.isFirstIn() ? 1.0 : 0.0";
  case rt::Number::HandInWorker:
    return "static_cast<double>(r.handInWorker())";
  case rt::Number::Step:
    return "static_cast<double>(r.step())";
  case rt::Number::SampleCount:
    return "static_cast<double>(r.sampleCount())";
  case rt::Number::ValidSamples:
    return "r.validSamples()";
  case rt::Number::BatchOffset:
    return "r.batchOffset()";
  case rt::Number::IsFirst:
    return "r.coordinate(" + std::to_string(*number.getOf()) + ") == 0 ? 1.0 : 0.0";
  }
  llvm_unreachable("of all kinds");
}

bool codegen::isInline(rt::NumberOp number) {
  return number.getKind() == rt::Number::ValidSamples ||
         (number.getKind() == rt::Number::LearningRate && !number.getOf());
}
