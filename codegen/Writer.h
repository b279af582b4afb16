// What the text of operations is written with.
#pragma once
#include "ir/ech/Ech.h"
#include <string>

namespace echelon::codegen {

class Writer {
public:
  virtual ~Writer() = default;
  /// What the program calls a buffer, number, position or ticket. Declares it, where that is still to be done, before
  /// what is written next.
  virtual std::string name(mlir::Value value) = 0;
  /// The one element of a buffer, as an expression.
  virtual std::string element(mlir::Value buffer) = 0;
  /// Whether a buffer of one element is a variable of the function; `name` is then its value.
  virtual bool isVariable(mlir::Value buffer) = 0;
  /// The product of the sizes of axes, by their names: "batch * seq"; "1" of none.
  virtual std::string size(llvm::ArrayRef<ech::Axis> axes) = 0;
  /// The left side of a ticket's start: its name, with its type where this declares it.
  virtual std::string define(mlir::Value ticket) = 0;
  /// Declares an array of `count` tickets, unless it is declared elsewhere.
  virtual void tickets(mlir::Value array, int64_t count) = 0;
  /// `head(arguments…);` with line breaks where needed, and the operation's source line behind or before it.
  virtual void call(mlir::Operation *op, llvm::StringRef head, llvm::ArrayRef<std::string> arguments,
                    llvm::StringRef remark = "") = 0;
  /// A kernel, as the target calls it.
  virtual void kernel(mlir::Operation *op) = 0;
  /// Where the operation stands in the source, as a string literal: "mlp.ech:33"; empty where that is not known.
  virtual std::string place(mlir::Operation *op) = 0;
  /// One line, indented; `open` ends with a brace and indents what follows, `close` closes it.
  virtual void line(const llvm::Twine &text) = 0;
  virtual void open(const llvm::Twine &head) = 0;
  virtual void close() = 0;
  /// `target op expression;` with line breaks.
  virtual void assign(llvm::StringRef target, llvm::StringRef op, llvm::StringRef expression) = 0;
  /// The source lines of these operations, each once, as comments.
  virtual void sources(llvm::ArrayRef<mlir::Operation *> ops) = 0;
  /// The operations of a block.
  virtual void block(mlir::Block &block) = 0;
};

} // namespace echelon::codegen
