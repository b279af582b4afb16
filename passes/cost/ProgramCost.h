// What a compiled step communicates and stores: for `plan`, `plan --json` and the generated program's --plan.
#pragma once
#include "ir/rt/Times.h"
#include "passes/cost/PipelineCost.h"
#include <string>
#include <vector>

namespace echelon {

struct MessageCost {
  std::string op;        ///< "all_reduce", …
  std::string axis;      ///< mesh axes: "dp", "dp+tp"
  int64_t ranks = 1;     ///< that take part
  int64_t bytes = 0;     ///< of the message on one rank
  int64_t count = 1;     ///< times a step, trips of loops included, on the stage of a pipeline that has most
  rt::ByStage times;     ///< the same on each
  std::string algorithm; ///< as the program calls it
  std::string choice;    ///< why that, "ring 31 us; tree 45 us"; empty where nothing was chosen
  std::string reason;    ///< layout clause and operation
  std::string place;     ///< "mlp.ech:15"
  std::string phase;     ///< "forward", "backward", "update"
  double seconds = 0;    ///< of one, alone; 0: nobody has asked a machine
};

/// "12.3 ms".
std::string inTime(double seconds);

/// Bytes of one rank.
struct MemoryCost {
  int64_t params = 0, gradients = 0, optimizer = 0, activations = 0, buffers = 0, total = 0;
};

/// Of the optimizer's state, and of parameters, what is offloaded.
struct OffloadCost {
  std::string directory; ///< of files; empty: it lies in the memory of a GPU's host
  int64_t from = 0;      ///< in the state arena
  int64_t bytes = 0;     ///< of one rank
  int64_t piece = 0;     ///< of these, as much as an update works on at a time
  bool isOfGpu = false;  ///< which has two pieces apart from its arenas
  bool params = false;   ///< of repeats, too

  /// Of these, what is in the memory of whatever computes: a piece that is computed, and one that is written, or comes.
  int64_t resident() const { return isOfGpu ? 2 * piece : std::min(bytes, 2 * piece); }
  /// And what is in the host's: beside pages of the file two pieces to copy from and to.
  int64_t ofHost() const { return !isOfGpu ? resident() : directory.empty() ? bytes : 2 * resident(); }
  std::string text() const; ///< a line for people
};

/// What one stage of a pipeline alone has of parameters, and of what the optimizer keeps of them in memory.
struct PlacedCost {
  std::string axis;  ///< the mesh axis of the stages
  int64_t stage = 0; ///< which one
  int64_t params = 0, optimizer = 0;
  std::vector<std::string> names; ///< of the parameters

  int64_t bytes() const { return params + optimizer; }
  std::string text() const; ///< a line for people
};

/// What messages come to on a rank: of stages of a pipeline, on that which sends most.
struct MessageSum {
  int64_t count = 0, bytes = 0;
};
MessageSum sumOf(llvm::ArrayRef<MessageCost> messages);

struct ProgramCost {
  std::vector<MessageCost> messages;        ///< of one training step, in order; equal ones counted together
  std::vector<MessageCost> meetingMessages; ///< of one meeting of workers that train by themselves
  int64_t meetsEvery = 0;                   ///< steps; 0: there are no such meetings
  std::optional<PipelineCost> pipeline;
  std::optional<OffloadCost> offload;
  MemoryCost memory;                                     ///< of a rank that has most
  std::vector<std::string> buckets;                      ///< what messages were put together, and why
  std::vector<PlacedCost> placed;                        ///< by stage
  int64_t stateBytes = 0, inputBytes = 0, workBytes = 0; ///< the arenas, exactly as allocated
  int64_t copyBytes = 0;    ///< of the state, from which snapshots are written while training goes on
  std::string text() const; ///< a table for people
};

/// From a module whose arenas are planned. Gradients are the work buffers that hold a parameter's derivative until the
/// update; activations the rest of the work arena at its fullest; buffers the inputs, what state is no parameter, and,
/// where the program `saves` snapshots, the copy of the state; where state lies in a file, there is none.
ProgramCost programCost(mlir::ModuleOp module, bool saves = false);

} // namespace echelon
