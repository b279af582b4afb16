// dist-lower-to-rt: tensors become buffers, operations become calls. The rules are in passes/lower, one file a group
// of operations.
//
// 1. Each step becomes a function; inputs and stored tensors become buffers of their arenas.
// 2. Each operation, in order, becomes calls and loops (its rule), written straight to where the value goes.
// 3. Collectives get the number of their group in the program's table. A `collective` clause that is of none is
// refused.
#include "mlir/IR/SymbolTable.h"
#include "passes/Passes.h"
#include "passes/lower/Lowering.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

namespace echelon {
#define GEN_PASS_DEF_LOWERTORT
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
struct LowerToRt : echelon::impl::LowerToRtBase<LowerToRt> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    keepAxes(module);
    for (auto step : llvm::make_early_inc_range(module.getOps<ech::StepOp>())) {
      lower::Lowering lowering(module, dist::meshOf(module));
      lowering.b.setInsertionPoint(step);
      auto function = rt::FunctionOp::create(lowering.b, step.getLoc(), step.getSymName());
      if (failed(lowering.step(step, function)))
        return signalPassFailure();
      step.erase();
    }
    numberGroups(module);
    if (failed(checkClauses(module)))
      signalPassFailure();
  }

  /// Buffers have the sizes of one rank; what the model says of an axis is kept.
  void keepAxes(ModuleOp module) {
    NamedAttrList axes;
    Builder b(module.getContext());
    module.walk([&](Operation *op) {
      if (isa_and_nonnull<ech::EchDialect>(op->getDialect()))
        for (Type type : op->getResultTypes())
          if (auto tensor = dyn_cast<ech::Tensor>(type))
            for (const ech::Axis &axis : tensor.getAxes())
              if (!axes.get(axis.name))
                axes.set(axis.name, b.getI64IntegerAttr(axis.size));
    });
    module->setAttr(rt::kAxes, axes.getDictionary(&getContext()));
  }

  /// A `collective` clause that no collective follows would change nothing.
  LogicalResult checkClauses(ModuleOp module) {
    auto clauses = module->getAttrOfType<ArrayAttr>(dist::kAlgorithms);
    dist::MeshAttr mesh = dist::meshOf(module);
    bool all = true;
    if (!clauses)
      return success();
    for (auto clause : clauses.getAsRange<DictionaryAttr>()) {
      auto place = clause.getAs<LocationAttr>("place");
      SmallVector<int64_t> over = llvm::map_to_vector(ech::strings(clause.getAs<ArrayAttr>("over")),
                                                      [&](StringRef name) -> int64_t { return mesh.index(name); });
      int64_t ranks = 1;
      for (int64_t m : over)
        ranks *= mesh.sizeOf(m);
      if (!place || ranks == 1)
        continue;
      llvm::sort(over);
      StringRef kind = clause.getAs<StringAttr>("op").getValue();
      std::set<StringRef> kinds; // that go over these ranks
      module.walk([&](rt::CollectiveOp op) {
        if (op.getMesh() == ArrayRef(over))
          kinds.insert(op.getKind());
      });
      if (clause.getAs<StringAttr>("algorithm") == dist::kHierarchical) // what stands for it
        module.walk([&](rt::CollectiveOp op) {
          if (op.getMesh() == ArrayRef(over).take_back() && op.getKind() == "reduce_scatter")
            kinds.insert(kind);
        });
      if (!kinds.count(kind)) {
        const std::string names = mesh.names(SmallVector<int>(over.begin(), over.end()));
        auto error = emitError(place);
        error << "E0410: this changes nothing: no " << kind << " goes over " << names;
        if (kinds.empty())
          error << ", and nothing else does; leave it out";
        else
          error << "; over " << names << (kinds.size() == 1 ? " goes " : " go ") << llvm::join(kinds, " and ");
        all = false;
      }
    }
    return success(all);
  }

  /// Of two ranks in a ring each is before and behind the other: what goes one way is told from what goes the other way
  /// by a group of its own.
  static bool isOtherWayRound(Operation *op) {
    auto goesBack = [](auto message, int64_t back) {
      return message.getAround() && message.getRanks() == 2 && int64_t(message.getStep()) == back;
    };
    if (auto send = dyn_cast<rt::SendOp>(op))
      return goesBack(send, -1);
    auto receive = dyn_cast<rt::ReceiveOp>(op);
    return receive && goesBack(receive, 1);
  }

  void numberGroups(ModuleOp module) {
    Builder builder(module.getContext());
    SmallVector<std::pair<Attribute, bool>> groups;
    module.walk([&](Operation *op) {
      if (!isa<rt::Communicates>(op))
        return;
      const std::pair<Attribute, bool> key(op->getAttr("mesh"), isOtherWayRound(op));
      auto at = llvm::find(groups, key);
      op->setAttr(rt::kGroup, builder.getI64IntegerAttr(at - groups.begin()));
      if (at == groups.end())
        groups.push_back(key);
    });
    module->setAttr(rt::kGroups,
                    builder.getArrayAttr(llvm::map_to_vector(groups, [](const auto &group) { return group.first; })));
  }
};
} // namespace
