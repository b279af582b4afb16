// Both steps of a module, and what is settled once they stand: inputs in the data source's order, decayed parameters.
#include "frontend/elaborate/Elaborate.h"
#include "frontend/elaborate/Decay.h"
#include "frontend/elaborate/Elaborator.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

namespace {

/// Puts the inputs into the order of the data source's outputs.
void orderInputs(Shared &shared) {
  if (!shared.options.inputs)
    return;
  std::vector<InputFacts> ordered;
  std::vector<std::string> known;
  for (const InputFacts &input : shared.facts.inputs)
    known.push_back(input.name);
  auto hasWrong = [&](const std::string &name) { // its declaration is reported already
    return llvm::is_contained(shared.wrongInputs, name);
  };
  bool good = shared.wrongInputs.empty() && !shared.diagnostics.told(Code::E0503); // it gives more or fewer
  for (const Path &path : *shared.options.inputs) {
    std::string name = path.text();
    auto it = llvm::find_if(shared.facts.inputs, [&](const InputFacts &i) { return i.name == name; });
    if (it == shared.facts.inputs.end() && hasWrong(name)) {
      good = false;
    } else if (it == shared.facts.inputs.end()) {
      shared.diagnostics.error(Code::E0505, path.range,
                               "the model has no input " + quoted(name) +
                                   (known.empty()                  ? ""
                                    : nearest(name, known).empty() ? "; its inputs are " + listed(known)
                                                                   : didYouMean(name, known)));
      good = false;
    } else if (llvm::any_of(ordered, [&](const InputFacts &i) { return i.name == name; })) {
      shared.diagnostics.error(Code::E0505, path.range, "input " + name + " is filled twice");
      good = false;
    } else {
      ordered.push_back(*it);
    }
  }
  for (const InputFacts &input : shared.facts.inputs)
    if (llvm::none_of(ordered, [&](const InputFacts &i) { return i.name == input.name; })) {
      if (good)
        shared.diagnostics
            .error(Code::E0505, shared.options.dataRange,
                   "input " + input.name + " of the model is not filled; name it after the arrow")
            .note(input.range, "input " + input.name + " is declared here");
      ordered.push_back(input);
    }
  shared.facts.inputs = std::move(ordered);
  for (auto op : shared.module.getOps<ech::InputOp>())
    for (auto [place, input] : llvm::enumerate(shared.facts.inputs))
      if (input.name == op.getSymName())
        op.setPlace(place);
}

/// Values of calls that no assignment has named are called as the calls are; others in them have the call's path with a
/// dot after it: passes say what they are.
void nameCalled(ModuleOp module) {
  module.walk([](Operation *op) {
    auto called = dyn_cast_or_null<StringAttr>(op->removeAttr(kCalled));
    auto within = dyn_cast_or_null<StringAttr>(op->removeAttr(kWithin));
    if (StringAttr name = called ? called : within; name && !isa<NameLoc>(op->getLoc()))
      op->setLoc(NameLoc::get(name, op->getLoc()));
  });
}

} // namespace

OwningOpRef<ModuleOp> echelon::frontend::elaborate(MLIRContext &context, const SourceManager &sources,
                                                   const Program &program, const ElaborateOptions &options,
                                                   Diagnostics &diagnostics, ModelFacts &facts) {
  context.getOrLoadDialect<ech::EchDialect>();
  size_t errorsBefore = diagnostics.errorCount();
  auto loc = FileLineColLoc::get(&context, sources.name(options.file->id), 1, 1);
  OwningOpRef<ModuleOp> module(ModuleOp::create(loc));
  Shared shared{context, sources, program, options, diagnostics, facts, *module,
                {},      {},      {},      {},      {},          {},    KeptNames(options.kept)};
  // Training first: it declares everything. @evaluate is the same model read again with `training` false; a mistake
  // that both meet is reported once.
  Elaborator(shared, true).run();
  shared.isTrainingWhole = diagnostics.errorCount() == 0;
  if (shared.kept.areWanted() && shared.isTrainingWhole)
    shared.kept.finish(diagnostics);
  Elaborator(shared, false).run();
  orderInputs(shared);
  if (diagnostics.errorCount() > errorsBefore || !shared.wrongInputs.empty()) // their errors may be the parser's
    return nullptr;

  nameCalled(*module);
  OpBuilder builder(&context);
  (*module)->setAttr(ech::kBatch, builder.getI64IntegerAttr(options.batch));
  (*module)->setAttr(ech::kBatchAxis, builder.getStringAttr(facts.batchAxis));
  llvm::SmallVector<Attribute> likeBatch;
  for (const auto &[name, counts] : shared.likeBatch)
    if (counts)
      likeBatch.push_back(builder.getStringAttr(name));
  if (!likeBatch.empty())
    (*module)->setAttr(ech::kLikeBatch, builder.getArrayAttr(likeBatch));
  if (!shared.partialFunctions.empty())
    (*module)->setAttr(ech::kPartialFunctions, builder.getArrayAttr(shared.partialFunctions.getArrayRef()));
  llvm::StringSet<> samples;
  samples.insert(facts.batchAxis);
  for (Attribute name : likeBatch)
    samples.insert(cast<StringAttr>(name).getValue());
  markDecayed(*module, samples);
  return module;
}
