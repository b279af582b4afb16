// The rt dialect: one operation for each call of the runtime.
#pragma once
#include "ir/ech/Ech.h"
#include "ir/rt/Cost.h"
#include "ir/rt/Writer.h"

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
/// The name that the user gave a value, or "".
llvm::StringRef nameOf(mlir::Location loc);

/// Attributes of the module once arenas are planned: bytes of each.
inline constexpr llvm::StringLiteral kStateBytes = "rt.state_bytes";
inline constexpr llvm::StringLiteral kInputBytes = "rt.input_bytes";
inline constexpr llvm::StringLiteral kWorkBytes = "rt.work_bytes";

/// "float", "double", "int32_t", "uint8_t": what the program stores elements as.
llvm::StringRef storedAs(mlir::Type element);
/// A number as C++ text of the given type: "0.1f", "-1", "INFINITY".
std::string literal(double value, mlir::Type type);

} // namespace echelon::rt
