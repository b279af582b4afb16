// Steps, reads and writes, reports.
#include "passes/Phase.h"
#include "passes/lower/Lowering.h"
#include "passes/lower/Places.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
NameLoc storedName(Lowering &l, StringRef path, Location loc) {
  return NameLoc::get(l.b.getStringAttr(shortName(path)), loc);
}

LogicalResult lowerRead(Lowering &l, ech::ReadOp op) {
  if (op.getSource() == ech::kValidSamples)
    return success(); // free: loop nests ask how many samples are valid
  bool input = isa<ech::InputOp>(l.symbols.lookup(op.getSource()));
  // an input may be wanted in several states: it then has as many places
  std::string key = op.getSource().str();
  if (input) {
    llvm::raw_string_ostream os(key);
    os << " " << op.getValue().getType() << op->getAttr(ech::kReadFrom) << op->getAttr(ech::kReadTo);
  }
  Value &known = l.stored[key];
  if (!known) {
    OpBuilder::InsertionGuard guard(l.b);
    l.b.setInsertionPointToStart(&l.function.getBody().front());
    auto arena = rt::ArenaAttr::get(l.b.getContext(), input ? rt::Arena::Input : rt::Arena::State);
    auto alloc = rt::AllocOp::create(l.b, storedName(l, op.getSource(), op.getLoc()), l.bufferType(op.getValue()),
                                     arena, op.getSourceAttr(), nullptr);
    if (input) {
      NamedAttrList read;
      read.set("type", TypeAttr::get(op.getValue().getType()));
      if (Attribute from = op->getAttr(ech::kReadFrom)) {
        read.set("from", from);
        read.set("to", op->getAttr(ech::kReadTo));
      }
      alloc->setAttr(rt::kRead, read.getDictionary(l.b.getContext()));
    }
    known = alloc;
  }
  l.bind(op.getValue(), known);
  return success();
}

/// The buffer of a variable that is written and perhaps not read.
Value variable(Lowering &l, ech::WriteOp op) {
  Value &known = l.stored[op.getTarget()];
  if (!known) {
    OpBuilder::InsertionGuard guard(l.b);
    l.b.setInsertionPointToStart(&l.function.getBody().front());
    auto state = rt::ArenaAttr::get(l.b.getContext(), rt::Arena::State);
    known = rt::AllocOp::create(l.b, storedName(l, op.getTarget(), op.getLoc()), l.bufferType(op.getValue()), state,
                                op.getTargetAttr(), nullptr);
  }
  return known;
}

LogicalResult lowerStep(Lowering &l, ech::StepOp op) {
  Block &block = *op.getBody().begin();
  // variables first, so that what becomes their next value can be computed in place
  for (Operation &inner : block) {
    if (auto read = dyn_cast<ech::ReadOp>(inner)) {
      if (failed(lowerRead(l, read)))
        return failure();
      l.reads[read.getSource()].push_back(read.getValue());
    }
    if (auto write = dyn_cast<ech::WriteOp>(inner))
      variable(l, write);
  }
  l.reserveMessages(block);
  const bool exchanges = llvm::is_contained({"exchange", "restore", "train.start", "read"}, op.getSymName());
  SmallVector<std::pair<ech::WriteOp, Value>> late;
  auto isRead = [&](StringRef target, Operation &write) { // after this write
    Operation *next = write.getNextNode();
    return next && !llvm::all_of(l.reads[target], [&](Value read) { return l.isFreeAt(read, next, Value()); });
  };
  for (Operation &inner : block) {
    auto write = dyn_cast<ech::WriteOp>(inner);
    if (!write) {
      if (failed(l.lower(&inner)))
        return failure();
      continue;
    }
    Marking marking(l, dist::placeOf(write));
    Value target = l.stored[write.getTarget()], source = l.read(write.getValue());
    if (source == target)
      continue;
    // a value that is (part of) another variable's memory is taken before that changes: to where it goes, if that is
    // free
    if (auto alloc = rt::allocOf(source); alloc && alloc.getArena() != rt::Arena::Work) {
      if (exchanges && !isRead(write.getTarget(), inner)) {
        l.copy(target, source, write.getLoc());
        for (; !late.empty() && !isRead(late.back().first.getTarget(), inner); late.pop_back()) {
          Marking ofLate(l, dist::placeOf(late.back().first));
          l.copy(l.stored[late.back().first.getTarget()], late.back().second, late.back().first.getLoc());
        }
        continue;
      }
      Value taken = l.alloc(rt::buffer(source), write.getLoc());
      l.copy(taken, source, write.getLoc());
      source = taken;
    }
    late.push_back({write, source});
  }
  for (auto [write, source] : late) {
    Marking marking(l, dist::placeOf(write));
    l.copy(l.stored[write.getTarget()], source, write.getLoc());
    auto phase = l.waitsForCheck(write) ? l.b.getStringAttr("update") : write->getAttr(ech::kPhase);
    if (phase)
      l.b.getInsertionBlock()->back().setAttr(ech::kPhase, phase);
  }
  return success();
}

LogicalResult lowerReport(Lowering &l, ech::ReportOp op) {
  Value value = l.read(op.getValue());
  auto destinations = l.module->getAttrOfType<ArrayAttr>(rt::kScalars);
  SmallVector<Attribute> list;
  if (destinations)
    llvm::append_range(list, destinations);
  Attribute key = l.b.getStrArrayAttr({stringifyReportKind(op.getKind()), op.getName()});
  auto at = llvm::find(list, key);
  int64_t destination = at - list.begin();
  if (at == list.end()) {
    list.push_back(key);
    l.module->setAttr(rt::kScalars, l.b.getArrayAttr(list));
  }
  rt::ReportOp::create(l.b, op.getLoc(), l.b.getI64IntegerAttr(destination),
                       l.b.getStringAttr(stringifyReportKind(op.getKind())), op.getNameAttr(), value);
  return success();
}
} // namespace

LogicalResult Lowering::step(ech::StepOp step, rt::FunctionOp into) {
  function = into;
  evaluates = step.getSymName() == "evaluate";
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&into.getBody().front());
  if (failed(lowerStep(*this, step)))
    return failure();
  standApart(*this);
  return success();
}

void echelon::lower::addStructure(Lowering &l) {
  l.add<ech::ReadOp>(lowerRead);
  l.add<ech::ReportOp>(lowerReport);
}
