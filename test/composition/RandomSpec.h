// Specs by chance: a model of a few pieces out of the whole language, and a layout for it. A function of the seed.
#pragma once
#include "test/composition/RandomClauses.h"
#include <cstdint>
#include <functional>

namespace echelon::test {

/// A part of a model that takes x and gives x of the same axes, so that any of them may be left out.
struct Piece {
  std::string axes, outside, body; // `axis` lines of the model; blocks outside of it; statements
  std::vector<Piece> inner;        // of a repeat: what its body holds, where @ is in `body`
  bool batchStatistics = false;    // not under micro batches
  bool allSamples = false;         // nor in evaluation
  bool hasLargeNumbers = false;    // that fp16 lacks
};

struct MeshLine {
  std::string name;
  int64_t size;
  std::vector<std::string> list; // axes split over it; "seq padded"
  bool stores = false;
  std::vector<std::string> stored = {"optimizer"}; // what, if it stores
  bool ring = false;                               // keys of attention go round
};

/// An input of the model, and so a file of data.
struct RandomInput {
  std::string name;
  std::vector<std::string> axes; // but the batch
  std::vector<int64_t> sizes;
  int64_t below = 0; // 0: real; 1: truth values
};

/// Whether what a mesh axis lists, "batch padded", is the samples.
bool splitsBatch(const std::string &entry);

struct RandomSpec {
  /// `withClauses`: one clause of the table of RandomClauses.cpp, which goes around with the seed, and some more.
  explicit RandomSpec(uint64_t seed, bool withClauses = false);

  /// Another layout for the same model: `attempt` 0 is the first.
  void drawLayout(int attempt);
  /// The whole file. The data are the files NAME.npy of its folder, and NAME.held.npy for the evaluation.
  std::string text() const;
  /// Whether it has an evaluation.
  bool evaluates() const;
  int64_t steps() const;
  int64_t evaluatesEvery() const;
  /// Null: there is none of this group.
  const Clause *clause(const std::string &group) const;
  /// What counts have of its clauses.
  std::vector<std::string> clauseNames() const;
  /// Simpler specs, to be tried in this order when this one fails.
  std::vector<RandomSpec> simpler() const;

  uint64_t seed;
  std::string axes, head; // axes of the family, loss and metrics
  std::vector<RandomInput> inputs;
  std::vector<Piece> pieces;
  std::string optimizer;
  std::vector<Clause> clauses;
  int64_t batch = 8, microBatches = 1;
  std::vector<MeshLine> mesh;
  bool offloads = false; // what the optimizer keeps, to a file; from a GPU or to its host
  bool onGpu = false;    // where there are no rings
  int workerLines = 0;   // of the mesh, that `over` names; 0: it is not said

private:
  void drawStages(Random &random);
  void drawRing(Random &random);
  void drawNested(Random &random);
  void prepareFor(const std::vector<Clause> &drawn);
  WorkerAxes workersOf(const Clause &clause) const;
  std::vector<std::string> modelAxes() const;
};

} // namespace echelon::test
