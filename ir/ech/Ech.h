// The ech dialect: what is computed, in named axes. Types, operations and the interfaces that passes ask.
#pragma once
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace echelon::ech {

class Build;

/// One named axis of a tensor with its logical size.
struct Axis {
  mlir::StringAttr name;
  int64_t size;
  bool operator==(const Axis &other) const { return name == other.name && size == other.size; }
};
inline llvm::hash_code hash_value(const Axis &axis) { return llvm::hash_combine(axis.name, axis.size); }

/// How an operation may be divided along an axis of its space: each piece by itself; with communication of its own in
/// the middle (softmax, norms, argmax: the result is whole, or split where it has the axis); not at all.
enum class Division { Freely, Inside, Never };
/// Whether a value is free: never; by itself (inputs, numbers, positions, random values); or when all operands are.
enum class Freedom { Never, Source, IfOperandsAre };
/// What a pending sum among the operands does: is resolved first; passes through the one operand that is no number;
/// or passes where all operands with all the result's axes are pending alike or whole (addition).
enum class PendingRule { Resolve, Through, Add };

/// Whether a sum over some of the samples goes through an operation as through an addition: it is linear in the
/// operands that are such sums. `sharedFrom`: the first operand from which on others are added to them, so that each
/// pass contributes a share; -1: none are.
struct Linearity {
  bool isLinear = false;
  int sharedFrom = -1;
};

/// What the padding of an operand must hold before an operation reads across it: anything; a number; or nothing is
/// known that would do.
struct Padding {
  enum Need { Any, Number, Unknown } need = Any;
  double value = 0;
  static Padding number(double value) { return {Number, value}; }
};

/// Defaults of the interfaces.
int64_t elementwiseFlops(mlir::Operation *op);
Padding paddingOfSum(mlir::Operation *op, llvm::StringRef axis, Division division);

/// Whether a value is a number: without axes and made of constants, counts and what the run provides alone.
bool isNumber(mlir::Value value);

/// The axis of samples: what the module's ech.batch_axis says, else `batch`.
llvm::StringRef batchAxisOf(mlir::ModuleOp module);

/// On the module, an array of locations: the functions of the model's own text that are inf or nan of some finite
/// numbers, each once a line: NameLoc "log" at the line's first column.
inline constexpr llvm::StringLiteral kPartialFunctions = "ech.partial_functions";

/// Module attributes that the passes read, of the train block.
inline constexpr llvm::StringLiteral kBatch = "ech.batch";            // samples of a step, over all ranks
inline constexpr llvm::StringLiteral kBatchAxis = "ech.batch_axis";   // what the model calls the axis of samples
inline constexpr llvm::StringLiteral kLikeBatch = "ech.like_batch";   // further names of it
inline constexpr llvm::StringLiteral kMicroBatches = "ech.micro";     // passes of a step
inline constexpr llvm::StringLiteral kClip = "ech.clip";              // the largest norm of all gradients
inline constexpr llvm::StringLiteral kWorkerAxis = "ech.worker_axis"; // under a sync policy: what tensors call it
inline constexpr llvm::StringLiteral kWorkers = "ech.workers";    // of one rank that works for them: count, of a hop
inline constexpr llvm::StringLiteral kPackedBy = "ech.packed_by"; // workers that compress gradients: count, of a hop
inline constexpr llvm::StringLiteral kExactGradients = "ech.exact_gradients"; // of parameters that are not compressed
inline constexpr llvm::StringLiteral kSumsGradients = "ech.sums_gradients";   // of a sum over workers in @update
inline constexpr llvm::StringLiteral kStaysF32 = "ech.stays_f32";             // of a product, whatever the precision
inline constexpr llvm::StringLiteral kKeepGradients = "ech.keep_gradients";   // unit: they are variables, for tests

/// Discardable attributes that passes set and read.
/// On a parameter: what updates it, "adamw" or "adamw_without_decay".
inline constexpr llvm::StringLiteral kUpdateRule = "ech.update_rule";
inline constexpr llvm::StringLiteral kPhase = "ech.phase"; // "forward" (absent), "backward", "update"
inline constexpr llvm::StringLiteral kWhy = "ech.why";     // string: layout clause and op that need a collective
inline constexpr llvm::StringLiteral kLocal =
    "ech.local"; // unit, on normalize and count: of one micro batch, on all ranks
/// f64 array, on a draw that decides what is kept: below which number it is, once or at each position of the repeats
/// around it; absent where that is worked out while training.
inline constexpr llvm::StringLiteral kChance = "ech.chance";
/// On an ech.read of an input in other names than the input's: the groups of names, as an ech.relabel has them. The
/// axes of the read are the input's, relabelled; micro batches are read so, [batch] as [micro, batch].
inline constexpr llvm::StringLiteral kReadFrom = "ech.from";
inline constexpr llvm::StringLiteral kReadTo = "ech.to";

/// The input that says which samples of an evaluation's batch are real: no spec can name it, no source fills it.
inline constexpr llvm::StringLiteral kValidSamples = "valid samples";

} // namespace echelon::ech

#include "ir/ech/EchDialect.h.inc"
#include "ir/ech/EchEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/ech/EchTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/ech/EchAttrs.h.inc"
#include "ir/ech/EchInterfaces.h.inc"
#define GET_OP_CLASSES
#include "ir/ech/EchOps.h.inc"

namespace echelon::ech {
inline Tensor tensor(mlir::Value value) { return llvm::cast<Tensor>(value.getType()); }
inline bool has(mlir::ArrayAttr names, llvm::StringRef name) {
  return llvm::any_of(names, [&](mlir::Attribute a) { return llvm::cast<mlir::StringAttr>(a).getValue() == name; });
}
/// Whether elements are reals of two bytes: kept and multiplied as such, computed with as f32.
inline bool isNarrow(mlir::Type element) { return element.isBF16() || element.isF16(); }
/// Whether an operation multiplies tensors and sums up.
inline bool isProduct(mlir::Operation *op) {
  return llvm::isa<DotOp, ConvOp, ConvGradXOp, ConvGradWOp, AttentionOp, AttentionGradOp>(op);
}
/// Whether an element-wise function is of real numbers alone, as exp is: the table of ir/ech/ops/Map.cpp.
bool isOfReals(Function function);
/// `seq=64` lists, for diagnostics: "[batch = 64, seq = 64]".
std::string describe(Tensor type);
} // namespace echelon::ech
