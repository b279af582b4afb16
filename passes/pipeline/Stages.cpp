#include "passes/pipeline/Stages.h"
#include "passes/Phase.h"
#include "passes/pipeline/Row.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::pipeline;

bool echelon::pipeline::isShareOfStage(Operation *op, StringRef meshAxis) {
  auto slice = dyn_cast<SliceOp>(op);
  if (!slice || !ech::has(slice.getOver(), meshAxis))
    return false;
  const int m = meshOf(op).index(meshAxis);
  const Hold hold = stateOf(slice.getResult())[m].hold;
  return stateOf(slice.getValue())[m].hold == Hold::Whole && (hold == Hold::Sum || hold == Hold::Own);
}

FailureOr<std::unique_ptr<Stages>> Stages::of(ech::RepeatOp pass, MeshAttr mesh) {
  std::unique_ptr<Stages> stages(new Stages(pass, mesh));
  if (failed(stages->findLinks()))
    return failure();
  if (stages->row.empty())
    return std::unique_ptr<Stages>();
  stages->findSources();
  stages->place();
  return stages;
}

int64_t Stages::chunks() const { return mesh.mapOf(stages, cast<StringAttr>(mesh.getAxes()[stages].list[0])).chunks; }

Operation *Stages::makerOf(Value value) const {
  Operation *def = value.getDefiningOp();
  return def ? here(def) : nullptr;
}

/// Of the iterations along the axis of a repeat; nothing where stages do not divide them.
std::optional<Span> Stages::spanOf(Operation *op) const {
  auto loop = dyn_cast<ech::RepeatOp>(op);
  if (!loop || stagesOf(mesh, loop.getAxis()) != stages)
    return std::nullopt;
  const OwnerMap map = mesh.mapOf(stages, loop.getAxis());
  Span span{0, map.chunks * mesh.sizeOf(stages) - 1};
  while (!map.isEqual() && map.sizes[size_t(span.first)] == 0)
    ++span.first;
  while (!map.isEqual() && map.sizes[size_t(span.last)] == 0)
    --span.last;
  return span;
}

LogicalResult Stages::findLinks() {
  llvm::MapVector<int, Link> found; // by the place in the mesh axis's list
  for (auto loop : pass.block()->getOps<ech::RepeatOp>()) {
    const int m = stagesOf(mesh, loop.getAxis());
    if (m < 0 || mesh.sizeOf(m) == 1 || loop.getCarried().empty())
      continue;
    stages = m;
    Link &link = found[mesh.place(m, loop.getAxis())];
    ech::RepeatOp &known = loop.getReverse() ? link.backward : link.forward;
    if (known)
      return (emitError(loop.getLoc()) << "E0318: a second repeat along " << loop.getAxis()
                                       << " is not built yet in a pipeline; only one hands on what stages compute")
                 .attachNote(known.getLoc())
             << "the first one";
    known = loop;
    link.span = *spanOf(loop);
  }
  for (int i = 0; stages >= 0 && i < int(mesh.getAxes()[stages].list.size()); ++i)
    if (found.count(i))
      row.push_back(found[i]);
  return success();
}

const Link *Stages::linkOf(Operation *op) const {
  auto *at = llvm::find_if(row, [&](const Link &link) { return op == link.forward || op == link.backward; });
  return at == row.end() ? nullptr : &*at;
}

/// What follows from the repeats.
void Stages::findSources() {
  for (Operation &op : pass.block()->without_terminator())
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands()) {
        Operation *maker = makerOf(operand);
        if (!maker || maker == &op)
          continue;
        const Link *link = linkOf(maker);
        auto note = [&](auto &after, std::optional<int64_t> place, auto later) {
          if (place)
            after[&op] = after.count(&op) ? later(after[&op], *place) : *place;
        };
        auto known = [&](auto &after) {
          auto at = after.find(maker);
          return at == after.end() ? std::nullopt : std::optional(at->second);
        };
        const bool isForward = link && maker == link->forward, isBackward = link && !isForward;
        note(afterForward, isForward ? link->span.last : known(afterForward),
             [](int64_t a, int64_t b) { return std::max(a, b); });
        note(afterBackward, isBackward ? link->span.first : known(afterBackward),
             [](int64_t a, int64_t b) { return std::min(a, b); });
      }
    });
}

/// Whether each stage does a part of it, or all do it together.
bool Stages::isDivided(Operation *op) const {
  if (isShareOfStage(op, mesh.nameOf(stages)))
    return false;
  auto isPart = [&](Value v) {
    auto type = dyn_cast<Tensor>(v.getType());
    return type && stateOf(type)[stages].hold != Hold::Whole;
  };
  return llvm::any_of(op->getOperands(), isPart) || llvm::any_of(op->getResults(), isPart);
}

/// Whether it is made, from what is there everywhere, without a product.
bool Stages::isCheap(Operation *op) {
  auto known = cheap.find(op);
  if (known != cheap.end())
    return known->second;
  bool is = true;
  op->walk([&](Operation *inner) {
    is &= !ech::isProduct(inner);
    for (Value operand : inner->getOperands())
      if (Operation *maker = makerOf(operand); maker && maker != op)
        is &= !linkOf(maker) && isCheap(maker);
  });
  return cheap[op] = is;
}

/// Which samples are valid: loop nests ask for the number of them, and nothing is made of it.
static bool isNumberOfSamples(Operation *op) {
  auto read = dyn_cast<ech::ReadOp>(op);
  return read && read.getSource() == ech::kValidSamples;
}

/// Where what a use reads has to be; nothing: its reader has no place yet.
std::optional<Span> Stages::neededBy(OpOperand &use) const {
  Operation *reader = use.getOwner(), *here = this->here(reader);
  if (const Link *link = linkOf(here); link && here == reader) {
    const bool isCarried = use.getOperandNumber() < cast<ech::RepeatOp>(here).getCarried().size();
    const int64_t begin = here == link->forward ? link->span.first : link->span.last;
    if (isCarried)
      return Span{begin, begin};
  }
  if (std::optional<Span> span = spanOf(here))
    return span;
  if (here->hasTrait<OpTrait::IsTerminator>())
    return Span{0, places() - 1};
  auto at = placed.find(here);
  if (at == placed.end())
    return std::nullopt;
  return at->second == kEverywhere ? Span{0, places() - 1} : Span{at->second, at->second};
}

SmallVector<Span> Stages::readers(Operation *op, bool ofBackward) const {
  SmallVector<Span> spans;
  for (OpOperand &use : op->getUses())
    if (Operation *here = this->here(use.getOwner());
        isOfBackward(here) == ofBackward || here->hasTrait<OpTrait::IsTerminator>())
      if (std::optional<Span> span = neededBy(use))
        spans.push_back(*span);
  return spans;
}

namespace {
int64_t firstOf(ArrayRef<Span> spans) {
  return llvm::min_element(spans, [](Span a, Span b) { return a.first < b.first; })->first;
}
int64_t lastOf(ArrayRef<Span> spans) {
  return llvm::max_element(spans, [](Span a, Span b) { return a.last < b.last; })->last;
}
int64_t lookup(const llvm::DenseMap<Operation *, int64_t> &map, Operation *op, int64_t otherwise) {
  auto at = map.find(op);
  return at == map.end() ? otherwise : at->second;
}
} // namespace

int64_t Stages::placeForward(Operation *op, ArrayRef<Span> read) {
  const int64_t after = lookup(afterForward, op, kEverywhere);
  if (isShareOfStage(op, mesh.nameOf(stages)))
    return std::max<int64_t>(after, 0);
  if (read.empty())
    return after;
  const int64_t first = firstOf(read), last = lastOf(read);
  if (first != last && after == kEverywhere && isCheap(op))
    return kEverywhere;
  const bool isReadEverywhere = first == 0 && last == places() - 1;
  if (isReadEverywhere && after == kEverywhere && isa<DistDialect>(op->getDialect()))
    return kEverywhere; // what goes on to others is the part that a rank has
  return std::max(after, first);
}

int64_t Stages::placeBackward(Operation *op, ArrayRef<Span> read) {
  const int64_t none = places(), behind = lookup(afterBackward, op, none),
                after = lookup(afterForward, op, kEverywhere);
  if (isShareOfStage(op, mesh.nameOf(stages)))
    return behind < none ? behind : std::max<int64_t>(after, 0);
  const int64_t last = read.empty() ? kEverywhere : lastOf(read);
  if (behind == none && after == kEverywhere)
    return read.empty() || (firstOf(read) != last && isCheap(op)) ? kEverywhere : last;
  if (behind == none)
    return std::max(after, last);
  int64_t ofForward = kEverywhere; // where what it reads of the forward pass is
  for (Value operand : op->getOperands())
    if (Operation *maker = makerOf(operand); maker && !isOfBackward(maker))
      ofForward = std::max(ofForward, placeOf(operand));
  const int64_t wanted = ofForward != kEverywhere ? ofForward : read.empty() ? behind : last;
  return std::min(std::max(wanted, last), behind);
}

void Stages::place() {
  SmallVector<Operation *> forward, backward, readLater;
  for (Operation &op : llvm::reverse(pass.block()->without_terminator())) {
    if (linkOf(&op) || isDivided(&op) || isNumberOfSamples(&op))
      placed[&op] = kEverywhere;
    else
      (isOfBackward(&op) ? backward : forward).push_back(&op);
  }
  for (Operation *op : forward) {
    const SmallVector<Span> read = readers(op, false);
    if (read.empty() && !isShareOfStage(op, mesh.nameOf(stages)) && !afterForward.count(op))
      readLater.push_back(op); // in the backward pass alone
    else
      placed[op] = placeForward(op, read);
  }
  for (Operation *op : backward)
    placed[op] = placeBackward(op, readers(op, true));
  for (Operation *op : readLater) {
    SmallVector<Span> read = readers(op, true);
    llvm::append_range(read, readers(op, false));
    placed[op] = placeForward(op, read);
  }
}

int64_t Stages::placeOf(Operation *op) const { return lookup(placed, op, kEverywhere); }
int64_t Stages::placeOf(Value value) const {
  Operation *maker = makerOf(value);
  if (const Link *link = maker ? linkOf(maker) : nullptr)
    return llvm::is_contained(cast<ech::RepeatOp>(maker).getFinals(), value)
               ? maker == link->forward ? link->span.last : link->span.first
               : kEverywhere;
  return maker ? placeOf(maker) : kEverywhere;
}

int64_t Stages::rankOf(Operation *op) const {
  const bool goesBack = isOfBackward(op);
  if (const Link *link = linkOf(op)) {
    const int64_t before = link - row.begin();
    return 2 * (goesBack ? int64_t(row.size()) - before : before + 1);
  }
  const int64_t place = placeOf(op);
  return place == kEverywhere ? 0 : 1 + 2 * llvm::count_if(row, [&](const Link &link) {
                                          return goesBack ? link.span.last > place : link.span.first < place;
                                        });
}

LogicalResult Stages::refuse(Operation *reader) const {
  const std::string over = mesh.nameOf(stages).str();
  if (row.size() > 1)
    return emitError(reader->getLoc()) << "E0318: a micro batch goes through " << namesOfRow(mesh, stages) << " over "
                                       << over << ", and this reads there what comes later; a chain is in the order in "
                                       << "which values flow";
  return emitError(reader->getLoc()) << "E0318: what is made at the end of a repeat over stages of " << over
                                     << " is read at its beginning, which is not built yet in a pipeline";
}

/// What goes to places other than that where a value is made.
LogicalResult Stages::addRides(Value value, Operation *maker, SmallVectorImpl<Ride> &rides) const {
  const int64_t place = placeOf(value);
  const bool isLater = isOfBackward(maker);
  Ride onward{value, false, {place, place}, {}}, back{value, true, {place, place}, {}};
  SmallVector<OpOperand *> there;
  for (OpOperand &use : value.getUses()) {
    Operation *reader = here(use.getOwner());
    const std::optional<Span> needed = neededBy(use);
    if (!needed || reader->hasTrait<OpTrait::IsTerminator>())
      continue;
    const bool readsLater = isOfBackward(reader), isThere = needed->first == place && needed->last == place;
    const bool isOnward = !isLater && needed->first >= place;
    if (isThere && readsLater == isLater)
      continue;
    if (!isOnward && !(readsLater && needed->last <= place))
      return refuse(reader);
    if (isThere && !isOnward)
      continue;
    (isThere ? there : isOnward ? onward.uses : back.uses).push_back(&use);
    onward.span.last = std::max(onward.span.last, needed->last);
    back.span.first = std::min(back.span.first, needed->first);
  }
  if (!onward.uses.empty()) {
    llvm::append_range(onward.uses, there); // that it is kept once
    rides.push_back(onward);
  }
  if (!back.uses.empty())
    rides.push_back(back);
  return success();
}

FailureOr<SmallVector<Ride>> Stages::rides() const {
  SmallVector<Ride> rides;
  for (Operation &op : pass.block()->without_terminator())
    for (Value value : op.getResults())
      if (placeOf(value) != kEverywhere && !isShareOfStage(&op, mesh.nameOf(stages)) &&
          failed(addRides(value, &op, rides)))
        return failure();
  return rides;
}
