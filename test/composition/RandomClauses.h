// Clauses of `train` by chance, beside model, data, batch, length, optimizer and layout. A new one is a line of the
// table in RandomClauses.cpp.
#pragma once
#include "test/composition/RandomPieces.h"
#include <cstdint>

namespace echelon::test {

struct Clause {
  std::string name;  // as counts have it: "sync k_async"; the first word is its group
  std::string text;  // after choices; $ and a letter stand for what depends on the mesh
  std::string plain; // the same with the first of every choice
  std::string model; // lines that the model has for it
  uint64_t draw = 0; // what fills the letters

  std::string group() const { return name.substr(0, name.find(' ')); }
};

/// The mesh axes of the workers, of a policy or of a hop.
struct WorkerAxes {
  std::vector<std::string> names;
  int64_t count = 1;
  bool areNamed = false; // `over`
};

/// What a layout has to be for clauses, and what a model must not have.
bool needsWorkers(const Clause &clause);    // outermost mesh axes split the batch alone
bool needsHop(const Clause &clause);        // a mesh axis splits the batch first
bool needsEvaluation(const Clause &clause); // of single samples
bool needsSmallNumbers(const Clause &clause);
bool hasLocal(const std::vector<Clause> &clauses); // workers that train by themselves for some steps
bool needsWholeBatch(const Clause &clause);        // its numbers are other ones in each way to take it apart
bool needsOwnSamples(const Clause &clause);        // each worker's, and so no statistics over the batch

/// The clause with this place of the table, and of other groups some, by chance. `turn` is taken around.
std::vector<Clause> drawClauses(uint64_t turn, Random &random);
/// The one of this name.
Clause drawClause(const std::string &name, Random &random);
/// One line of the spec, of a model whose products read these parameters.
std::string print(const Clause &clause, const WorkerAxes &workers, const std::vector<std::string> &factors);

/// Clauses that are no line of their own.
inline constexpr char kMicroBatches[] = "micro batches", kStoreOptimizer[] = "store optimizer",
                      kStoreGradients[] = "store gradients", kStoreParams[] = "store params",
                      kDeltas[] = "compress deltas";
/// Names of all that are drawn, these among them.
std::vector<std::string> clauseNames();

} // namespace echelon::test
