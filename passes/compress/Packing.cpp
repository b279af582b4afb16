#include "passes/compress/Packing.h"

#include "ir/ech/ops/Derive.h"
#include <limits>

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::compress;

SmallVector<Axis> Packed::own() const {
  return SmallVector<Axis>(cast<Tensor>(param.getType()).getAxes().drop_front(param.getStacked()));
}
SmallVector<StringRef> Packed::ownNames() const {
  return llvm::map_to_vector(own(), [](const Axis &axis) { return axis.name.getValue(); });
}
int64_t Packed::elements() const {
  int64_t n = 1;
  for (const Axis &axis : own())
    n *= axis.size;
  return n;
}

Value Packed::flat(Value x) const { return build.relabel(x, ownNames(), {{workers.flat, elements()}}); }
Value Packed::unflat(Value x) const {
  SmallVector<std::pair<StringRef, int64_t>> axes;
  for (const Axis &axis : own())
    axes.push_back({axis.name.getValue(), axis.size});
  return build.relabel(x, {workers.flat}, axes);
}

Value Packed::mean(Value perWorker) const {
  Value sum =
      build.sum(perWorker, {tensor(perWorker).has(workers.all) ? StringRef(workers.all) : StringRef(workers.axis)});
  return workers.ofHop == 1 ? sum : build.mul(sum, build.constant(1.0 / double(workers.ofHop)));
}

Value Packed::finiteness(Value u) const {
  Value total = build.sum(build.map(Function::Abs, {u}), ownNames());
  Value isFinite = build.map(Function::Le, {total, build.constant(std::numeric_limits<float>::max())});
  return build.select(isFinite, build.constant(1), total);
}

Value Packed::named(StringRef name, Value value) const {
  value.getDefiningOp()->setLoc(NameLoc::get(build.builder.getStringAttr(name), build.loc));
  return value;
}
VariableOp Packed::variable(StringRef prefix, Tensor type, Distribution start, double a, double b) const {
  OpBuilder builder(param->getContext());
  Operation *last = param;
  while (auto next = dyn_cast_or_null<VariableOp>(last->getNextNode())) {
    if (next.getKind() != VariableKind::Compression)
      break;
    last = next;
  }
  builder.setInsertionPointAfter(last);
  return VariableOp::create(builder, param.getLoc(), (prefix + param.getSymName()).str(), VariableKind::Compression,
                            type, start, APFloat(a), APFloat(b), param.getStacked(), /*decayed=*/false);
}
Value Packed::read(VariableOp variable) const {
  return named(variable.getSymName(),
               ReadOp::create(build.builder, build.loc, cast<Tensor>(variable.getType()), variable.getSymName()));
}

Value echelon::compress::meanOfPacked(const Packed &p, const Packing &packing, Value u) {
  Build &b = p.build;
  Value isIn = p.counts ? p.named("is_in", b.map(Function::Gt, {p.counts, b.constant(0)})) : Value();
  VariableOp residual;
  Value before;
  if (p.feedback) {
    residual = p.variable("optimizer.residual.", tensor(u), Distribution::Constant, 0, 0);
    before = p.read(residual);
    u = p.named("owed", b.add(u, before));
  }
  if (isIn)
    u = p.named("owed", inOrder(b, b.select(isIn, u, b.constant(0)), tensor(u)));
  Unpacked of = packing.pack(p, u);
  if (residual) {
    Value after = b.sub(u, of.alone);
    if (isIn)
      after = inOrder(b, b.select(isIn, after, before), tensor(u));
    WriteOp::create(b.builder, b.loc, residual.getSymName(), p.named(residual.getSymName(), after));
  }
  return of.mean;
}

void echelon::compress::refuseWithoutEffect(run::CompressOp clause) {
  InFlightDiagnostic error = clause.emitError() << "E0409: ";
  if (clause.getKind() == "powersgd")
    error << "powersgd(rank = " << int64_t(clause.getAmount().convertToDouble())
          << ") makes no tensor of this model smaller, so nothing is packed; take a lower rank, or leave it out";
  else
    error << "no tensor of this model has more than one number that travels, so nothing is packed; leave it out";
}

const Packing *echelon::compress::findPacking(StringRef name) {
  for (const Packing *packing : {&kFp16, &kInt8, &kOneBit, &kTopK, &kRandomK, &kPowerSgd})
    if (packing->name == name)
      return packing;
  return nullptr;
}
