// The rt dialect: one operation for each call of the runtime.
#pragma once
#include "ir/ech/Ech.h"
#include "ir/rt/Cost.h"
#include "ir/rt/Message.h"
#include "mlir/IR/BuiltinTypes.h"
#include "runtime/transport/Element.h"

#include "ir/rt/RtDialect.h.inc"
#include "ir/rt/RtEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/rt/RtTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/rt/RtAttrs.h.inc"
#include "ir/rt/RtInterfaces.h.inc"
#define GET_OP_CLASSES
#include "ir/rt/RtOps.h.inc"

namespace echelon::rt {

inline Buffer buffer(mlir::Value value) { return llvm::cast<Buffer>(value.getType()); }
/// The rt.alloc whose memory a buffer is, through views.
AllocOp allocOf(mlir::Value buffer);
/// Whether two buffers share bytes, once arenas are planned; rows that a function is given lie apart.
bool overlap(mlir::Value a, mlir::Value b);
/// Axes of a buffer, or of the memory that it is part of, whose sizes multiply to a stride of it: those inside of it,
/// the slowest first. Nothing where axes do not lie so.
std::optional<llvm::SmallVector<ech::Axis>> axesWithin(mlir::Value buffer, int64_t stride);
/// Whether an operation only says what a value is, and is nowhere in a program.
inline bool isDeclaration(mlir::Operation &op) { return llvm::isa<AllocOp, ViewOp, NumberOp, OffsetOp, SlotOp>(op); }
/// The blocks of what is done several times, in turn, or on some ranks alone; none of other operations.
llvm::SmallVector<mlir::Block *, 2> blocksOf(mlir::Operation *op);
/// The name and number of micro batches or batches of a loop over them, or of stages that take them in turn.
std::optional<ech::Axis> passesOf(mlir::Operation *op);
/// What uses a buffer, or a view of it.
void forEachUser(mlir::Value buffer, llvm::function_ref<void(mlir::Operation *)> visit);
/// The name that the user gave a value, or "".
llvm::StringRef nameOf(mlir::Location loc);
/// The path of the call that a value without a name is in, "layer.attn."; empty of none.
llvm::StringRef callOf(mlir::Location loc);

/// What dist-lower-to-rt says for the passes after it, and for the program's tables.
/// On a collective: its group of ranks, a place in the module's list; on the module: the list, mesh axes of each.
inline constexpr llvm::StringLiteral kGroup = "rt.group";
inline constexpr llvm::StringLiteral kGroups = "rt.groups";
/// On the module: [kind, name] of what a step reports, and what random statements draw (`--dump`).
inline constexpr llvm::StringLiteral kScalars = "rt.scalars";
inline constexpr llvm::StringLiteral kDraws = "rt.draws";
/// On the rt.alloc of an input: the state in which it is read; of a message: a mark.
inline constexpr llvm::StringLiteral kRead = "rt.read";
inline constexpr llvm::StringLiteral kMessage = "rt.message";

/// What rt-plan-arenas says.
/// On an ech.variable: its byte in the state arena; on an ech.input: a place for each state in which it is read.
inline constexpr llvm::StringLiteral kOffset = "rt.offset";
inline constexpr llvm::StringLiteral kPlaces = "rt.places";
/// On the module: bytes of each arena.
inline constexpr llvm::StringLiteral kStateBytes = "rt.state_bytes";
inline constexpr llvm::StringLiteral kInputBytes = "rt.input_bytes";
inline constexpr llvm::StringLiteral kWorkBytes = "rt.work_bytes";

/// What the passes that shape a program say of its operations and values; printers read it, and
/// RtDialect::verifyOperationAttribute checks it.
/// On an operation of a step: the function of the program that it is in.
inline constexpr llvm::StringLiteral kFunction = "rt.function";
/// On an rt.alloc or rt.view: [struct, member] that holds its address, ["OptimizerState", "m.wq"] of a moment that is a
/// Params of its own. A view with indices is a place of a stack.
inline constexpr llvm::StringLiteral kMember = "rt.member";
/// On the same: the member is a stack, whose places lie this many elements apart.
inline constexpr llvm::StringLiteral kStack = "rt.stack";
/// On a view of a stack: the position that it begins at, where it has an index: added to that.
inline constexpr llvm::StringLiteral kPosition = "rt.position";
/// On an rt.alloc of one element: it is a variable of the function that computes it, and no memory.
inline constexpr llvm::StringLiteral kVariable = "rt.variable";
/// On the module: the axes of the model that no stored tensor and no input has, with their sizes.
inline constexpr llvm::StringLiteral kAxes = "rt.axes";
/// On the module: sizes of axes that have names, a list of {axis, size, name}; with {whole, over} where ranks or micro
/// batches hold parts of `whole`.
inline constexpr llvm::StringLiteral kSizes = "rt.sizes";
/// On an operation: what the program calls its result, a loop's position; on a function: its arguments.
inline constexpr llvm::StringLiteral kName = "rt.name";

/// The function of the program that an operation is in; empty before rt-cut-functions, and of what stays in the step.
llvm::StringRef functionOf(mlir::Operation *op);

/// The length of a row that a function is given.
inline constexpr int64_t kAnyLength = mlir::ShapedType::kDynamic;

/// The element type that a type of MLIR is in memory; nothing where it is none.
std::optional<runtime::ElementType> elementOf(mlir::Type type);
/// "float", "double", "int32_t", "uint8_t": what the program stores elements as.
llvm::StringRef storedAs(mlir::Type element);

} // namespace echelon::rt
