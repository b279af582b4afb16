// The C++ text of functions: lines, line breaks, comments with the user's source, declarations where they are needed.
#pragma once
#include "codegen/Probes.h"
#include "codegen/SizeTable.h"
#include "codegen/Structs.h"
#include "frontend/Source.h"
#include "passes/LocalNames.h"
#include "llvm/Support/raw_ostream.h"

namespace echelon::codegen {

inline constexpr size_t kLineLength = 120;

/// "mlp.ech:15  h = relu(…)" for an operation's place; empty where it has none.
class SourceLines {
public:
  explicit SourceLines(const frontend::SourceManager &sources) : sources(sources) {}
  std::string of(mlir::Location loc) const;

private:
  const frontend::SourceManager &sources;
};

class Target;

/// One function's text. What an operation says is written by Calls.h and the target, in terms of this.
class Printer {
public:
  Printer(SizeTable &sizes, const Structs &structs, const SourceLines &sources, Target &target,
          Probes *probes = nullptr)
      : probes(probes), sizes(sizes), structs(structs), sourceLines(sources), ownTarget(target) {}

  Target &target() { return ownTarget; }

  /// What the program calls a buffer, number, position or ticket. Declares it, where that is still to be done, before
  /// what is written next.
  std::string name(mlir::Value value);
  /// The one element of a buffer, as an expression.
  std::string element(mlir::Value buffer);
  /// Whether a buffer of one element is a variable of the function; `name` is then its value.
  bool isVariable(mlir::Value buffer);
  /// The product of the sizes of axes, by their names: "batch * seq"; "1" of none.
  std::string size(llvm::ArrayRef<ech::Axis> axes) { return sizes.product(axes); }
  /// The left side of a ticket's start: its name, with its type where this declares it.
  std::string define(mlir::Value ticket);
  /// Declares an array of `count` tickets, unless it is declared elsewhere.
  void tickets(mlir::Value array, int64_t count);
  /// `head(arguments…);` with line breaks where needed, after a comment: the remark, or the operation's source line.
  void call(mlir::Operation *op, llvm::StringRef head, llvm::ArrayRef<std::string> arguments,
            llvm::StringRef remark = "");
  /// The operation's place in the source, as a string literal: "mlp.ech:33"; empty where that is not known.
  std::string place(mlir::Operation *op);
  /// One line, indented; `open` ends with a brace and indents what follows, `close` closes it. With `behind`, ";" of a
  /// local function, the brace stays where one statement is in it.
  void line(const llvm::Twine &text);
  void open(const llvm::Twine &head);
  void close(llvm::StringRef behind = "");
  /// `target op expression;` with line breaks.
  void assign(llvm::StringRef target, llvm::StringRef op, llvm::StringRef expression);
  /// The source lines of these operations, each once, as comments; then what `body` writes, which comes from them.
  void from(llvm::ArrayRef<mlir::Operation *> ops, llvm::function_ref<void()> body);
  /// The operations of a block.
  void block(mlir::Block &block);

  /// Prints one operation, declarations before it included.
  void operation(mlir::Operation &op);
  /// Prints a function: `head`, the structs that it uses, made of `r`, and what `body` prints.
  void function(const llvm::Twine &head, llvm::function_ref<void()> body);
  /// The function begins with this line.
  void begin(llvm::StringRef line) {
    if (!llvm::is_contained(heads, line))
      heads.push_back(line.str());
  }
  /// The text so far.
  const std::string &text() const { return written; }
  /// Where the program is to be profiled, else null.
  Probes *probes;

private:
  /// An open brace: what was declared in it, and whether it can go without.
  struct Scope {
    size_t brace;       ///< where its brace is in the text
    int statements = 0; ///< a comment or a declaration counts as two
    llvm::SmallVector<mlir::Value> values;
  };

  void declare(mlir::Value value);
  void keep(mlir::Value value);
  std::string member(mlir::Operation *op);
  void comment(llvm::ArrayRef<std::string> texts);
  void wrap(llvm::StringRef text);
  void write(size_t column, llvm::StringRef text);
  void count(int statements) {
    if (!scopes.empty())
      scopes.back().statements += statements;
  }

  SizeTable &sizes;
  const Structs &structs;
  const SourceLines &sourceLines;
  std::string written;
  llvm::SmallVector<Scope> scopes;
  llvm::DenseSet<mlir::Value> declared;
  Target &ownTarget;
  llvm::StringSet<> used; // structs
  llvm::SmallVector<std::string> heads;
  std::string lastSource;
};

/// "[batch, hidden]", by the names of sizes; a size without a name is beside its axis: "[row=14]".
std::string shape(rt::Buffer type, SizeTable &sizes);

/// Writes `head{parts…}end` at a column with parts filled into lines.
std::string filled(llvm::StringRef head, llvm::ArrayRef<std::string> parts, llvm::StringRef end, size_t indent);

} // namespace echelon::codegen
