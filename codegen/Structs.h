// The program's structs, as rt-bind-buffers filled them.
#pragma once
#include "codegen/SizeTable.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/MapVector.h"

namespace echelon::codegen {

/// A struct of addresses in one arena: its type, what functions call it, what it is.
struct Group {
  llvm::StringLiteral type, variable, summary;
};
/// In the order in which they are printed.
llvm::ArrayRef<Group> groups();
/// That of a name that rt-bind-buffers gave.
const Group &groupOf(llvm::StringRef type);

class Structs {
public:
  explicit Structs(mlir::ModuleOp module);
  /// Whether a member, [struct, name], is a stack.
  bool isStack(mlir::ArrayAttr member) const;
  /// A member after the variable of its struct: "wq", "m.wq".
  static std::string path(mlir::ArrayAttr member);
  /// All structs; each is initialized with a rank.
  void print(SizeTable &sizes, llvm::raw_ostream &os) const;

private:
  struct Member {
    mlir::Operation *op; // rt.alloc, or the rt.view of a part of a message
    mlir::ArrayAttr name;
  };
  /// "float *wte = r.state<float>(0)": without the end of the line.
  std::string definition(const Member &member, SizeTable &sizes) const;

  void printMoments(llvm::raw_ostream &os) const;

  llvm::StringMap<llvm::SmallVector<Member>> members; // by struct
  llvm::MapVector<llvm::StringRef, int64_t> moments;  // that are a Params each
};

} // namespace echelon::codegen
