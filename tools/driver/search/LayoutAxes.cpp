// Which axes of a model a layout may split.
#include "tools/driver/search/LayoutSpace.h"

#include "ir/ech/Ech.h"
#include "mlir/Pass/PassManager.h"
#include "planner/search/Factors.h"

#include <algorithm>

using namespace echelon::frontend;

namespace echelon {

namespace {
constexpr size_t kMostLists = 4;

/// The axes that parameters have of some named ones, by place; of one axis alone that of a parameter which has no
/// other.
class AxesOfParams {
public:
  AxesOfParams(mlir::ModuleOp module, const std::vector<std::string> &names) : names(names) {
    for (auto variable : module.getOps<ech::VariableOp>())
      if (variable.getKind() == ech::VariableKind::Param)
        add(mlir::cast<ech::Tensor>(variable.getType()));
  }

  /// Whether a parameter has both.
  bool isBeside(const std::string &axis, const std::vector<std::string> &list) const {
    return llvm::any_of(groups, [&](const planner::AxisGroup &group) {
      auto has = [&](const std::string &name) {
        return llvm::any_of(group.axes, [&](size_t place) { return names[place] == name && used.count(place); });
      };
      return has(axis) && llvm::any_of(list, has);
    });
  }

  /// Lists of axes of which no parameter has two.
  std::vector<std::vector<std::string>> lists() const {
    const std::vector<size_t> chosen(used.begin(), used.end());
    std::vector<planner::AxisGroup> renumbered = groups;
    for (planner::AxisGroup &group : renumbered) {
      std::vector<size_t> places;
      for (size_t axis : group.axes)
        if (auto it = std::find(chosen.begin(), chosen.end(), axis); it != chosen.end())
          places.push_back(static_cast<size_t>(it - chosen.begin()));
      group.axes = places;
    }
    std::vector<std::vector<std::string>> found;
    for (const std::vector<size_t> &taken : planner::apartLists(chosen.size(), renumbered, kMostLists)) {
      found.emplace_back();
      for (size_t axis : taken)
        found.back().push_back(names[chosen[axis]]);
    }
    return found;
  }

private:
  void add(ech::Tensor type) {
    planner::AxisGroup group;
    for (llvm::StringRef name : type.names())
      if (auto it = llvm::find(names, name.str()); it != names.end())
        group.axes.push_back(static_cast<size_t>(it - names.begin()));
    group.weight = double(type.count());
    if (group.axes.size() > 1 || type.names().size() == group.axes.size())
      used.insert(group.axes.begin(), group.axes.end());
    groups.push_back(group);
  }

  const std::vector<std::string> &names;
  std::vector<planner::AxisGroup> groups;
  std::set<size_t> used;
};
} // namespace

void LayoutSpace::findAxes() {
  const ModelFacts &facts = model.facts;
  const llvm::StringSet<> held = axesOfTensors(*model.module);
  std::vector<std::string> names, data, row;
  for (const AxisFacts &axis : facts.axes) {
    if (axis.isRepeat && !axis.isWalked && axis.size > 1) {
      iterations[axis.name] = axis.size;
      rows.push_back({axis.name});
      row.push_back(axis.name);
    }
    if (axis.isBatch || axis.isRepeat || axis.isPrivate || axis.isWalked || !held.contains(axis.name))
      continue;
    sizes[axis.name] = axis.size;
    names.push_back(axis.name);
  }
  if (row.size() > 1)
    rows.push_back(row);
  for (const InputFacts &input : facts.inputs)
    for (const auto &[axis, size] : input.axes)
      if (sizes.count(axis) && !llvm::is_contained(data, axis))
        data.push_back(axis);
  for (auto variable : (*model.module).getOps<ech::VariableOp>())
    if (variable.getKind() == ech::VariableKind::Param) {
      auto type = mlir::cast<ech::Tensor>(variable.getType());
      std::vector<std::string> all;
      for (llvm::StringRef name : type.names())
        all.push_back(name.str());
      params.push_back({all, double(type.count())});
    }
  findLists(names, data);
  findRing();
}

/// Which axes may be split together: those that no parameter has two of, so that each product is divided once. Axes of
/// the data, as positions, come last in a list, for what has none of the others.
void LayoutSpace::findLists(const std::vector<std::string> &names, const std::vector<std::string> &data) {
  const AxesOfParams ofParams(*model.module, names);
  auto add = [&](const std::vector<std::string> &list) {
    if (!list.empty() && !llvm::is_contained(lists, list))
      lists.push_back(list);
  };
  for (const std::vector<std::string> &all : ofParams.lists()) {
    std::vector<std::string> own;
    for (const std::string &name : all)
      if (!llvm::is_contained(data, name))
        own.push_back(name);
    add(own);
    std::vector<std::string> withData = own;
    for (const std::string &axis : data)
      if (!ofParams.isBeside(axis, own))
        withData.push_back(axis);
    add(withData);
    add(own.empty() ? all : own);
  }
  if (lists.empty())
    add(data);
}

/// Attention stands behind a pass alone.
void LayoutSpace::findRing() {
  mlir::ModuleOp own = *model.module;
  mlir::OwningOpRef<mlir::ModuleOp> copy = own.clone();
  mlir::PassManager manager(model.context.get());
  manager.addPass(createRecogniseAttention());
  if (mlir::succeeded(manager.run(*copy)))
    copy->walk([&](ech::AttentionOp op) {
      const std::string query = op.getQuery().str(), past = op.getPast().str();
      if (!ring && sizes.count(query) && sizes.count(past))
        ring = {query, past};
    });
}

} // namespace echelon
