#include "codegen/SizeTable.h"
#include "codegen/Printer.h"
#include "ir/dist/State.h"
#include "ir/ech/Build.h"
#include "passes/Identifier.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

namespace {
std::string keyOf(StringRef axis, int64_t size) { return (axis + "=" + Twine(size)).str(); }
} // namespace

SizeTable::SizeTable(ModuleOp module) {
  if (dist::MeshAttr mesh = dist::meshOf(module))
    for (const dist::MeshAxis &axis : mesh.getAxes())
      divisors[axis.name] = axis.size;
  module.walk([&](Operation *op) {
    if (auto passes = rt::passesOf(op))
      divisors[passes->name] = passes->size;
  });
  auto list = module->getAttrOfType<ArrayAttr>(rt::kSizes);
  if (!list)
    return;
  llvm::StringSet<> names;
  for (auto entry : list.getAsRange<DictionaryAttr>())
    names.insert(entry.getAs<StringAttr>("name").getValue());
  for (auto entry : list.getAsRange<DictionaryAttr>()) {
    const int64_t size = entry.getAs<IntegerAttr>("size").getInt();
    Size made{identifier(entry.getAs<StringAttr>("name").getValue()), std::to_string(size), {}};
    if (auto over = entry.getAs<ArrayAttr>("over")) {
      std::string by;
      for (StringRef divisor : ech::strings(over)) {
        if (names.contains(divisor)) // an axis of the model has its name
          by += (by.empty() ? "" : " * ") + std::to_string(divisors.lookup(divisor));
        else {
          by += (by.empty() ? "" : " * ") + identifier(divisor);
          made.over.push_back(divisor.str());
        }
      }
      made.definition =
          std::to_string(entry.getAs<IntegerAttr>("whole").getInt()) + " / " + (over.size() > 1 ? "(" + by + ")" : by);
    }
    order.push_back(keyOf(entry.getAs<StringAttr>("axis"), size));
    sizes[order.back()] = made;
  }
}

/// Whether a size of the model has the name of a mesh axis.
bool SizeTable::conflicts(StringRef divisor) const {
  return llvm::any_of(sizes, [&](const auto &size) { return size.second.name == identifier(divisor); });
}

std::string SizeTable::of(const ech::Axis &axis) {
  StringRef counted = axis.name.getValue();
  if (counted.consume_front("@") && divisors.lookup(counted) == axis.size && !conflicts(counted)) {
    if (!llvm::is_contained(counters, counted))
      counters.push_back(counted.str());
    return identifier(counted);
  }
  auto known = sizes.find(keyOf(axis.name, axis.size));
  if (known == sizes.end())
    return "";
  used.insert(known->getKey());
  return known->second.name;
}

std::string SizeTable::product(ArrayRef<ech::Axis> axes) {
  SmallVector<std::string> factors;
  int64_t number = 1; // of neighbours without names
  auto flush = [&] {
    if (number != 1)
      factors.push_back(std::to_string(number));
    number = 1;
  };
  for (const ech::Axis &axis : axes) {
    if (axis.size == 1)
      continue;
    std::string name = axis.size == rt::kAnyLength ? axis.name.str() : of(axis);
    if (name.empty()) {
      number *= axis.size;
      continue;
    }
    flush();
    factors.push_back(name);
  }
  flush();
  return factors.empty() ? "1" : llvm::join(factors, " * ");
}

void SizeTable::print(raw_ostream &os) const {
  SmallVector<std::string> plain, parts, by;
  llvm::StringSet<> known;
  for (const std::string &key : order) {
    if (!used.contains(key))
      continue;
    const Size &size = sizes.find(key)->second;
    (size.definition.find('/') == std::string::npos ? plain : parts).push_back(size.name + " = " + size.definition);
    for (const std::string &divisor : size.over)
      if (known.insert(divisor).second)
        by.push_back(identifier(divisor) + " = " + std::to_string(divisors.lookup(divisor)));
  }
  for (const std::string &counted : counters)
    if (known.insert(counted).second)
      by.push_back(identifier(counted) + " = " + std::to_string(divisors.lookup(counted)));
  if (plain.empty() && parts.empty() && by.empty())
    return;
  os << "// Sizes on one rank.\n";
  for (const auto &line : {by, plain, parts})
    if (!line.empty())
      os << filled("constexpr int64_t ", line, ";", 0) << "\n";
  os << "\n";
}
