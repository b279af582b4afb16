#include "passes/prove/Program.h"
#include "ir/ech/SourcePlace.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::prove;

int Channels::find(const std::vector<int64_t> &key, const Channel &channel) {
  auto [at, isNew] = known.try_emplace(key, static_cast<int>(all.size()));
  if (isNew)
    all.push_back(channel);
  return at->second;
}

namespace {
void place(const Start &start, llvm::raw_ostream &os) {
  if (const std::string place = ech::sourcePlace(start.op->getLoc()); !place.empty())
    os << " (" << place << ")";
}
} // namespace

std::string prove::shortly(const Start &start) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << start.is.kind << " over " << start.is.axes;
  place(start, os);
  return text;
}

std::string prove::described(const Start &start) {
  std::string text;
  llvm::raw_string_ostream os(text);
  const rt::Message &is = start.is;
  os << is.kind << " over " << is.axes << " of " << is.count << " " << is.element;
  if (is.runs > 1)
    os << " in " << is.runs << " runs";
  if (!is.reduction.empty())
    os << ", " << is.reduction;
  if (is.root >= 0)
    os << ", root " << is.root;
  if (!is.algorithm.empty())
    os << ", with " << is.algorithm;
  if (start.isEdge())
    os << ", tag " << is.tag;
  place(start, os);
  SmallVector<Value> positions = cast<rt::Communicates>(start.op).toldApartBy();
  for (auto [position, at] : llvm::zip(positions, start.label))
    os << ", " << position.getParentBlock()->getParentOp()->getAttrOfType<StringAttr>("axis").getValue() << " " << at;
  return text;
}
