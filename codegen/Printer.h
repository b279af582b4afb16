// The C++ text of functions: lines, line breaks, comments with the user's source, declarations where they are needed.
#pragma once
#include "codegen/Probes.h"
#include "codegen/SizeTable.h"
#include "codegen/Structs.h"
#include "codegen/Writer.h"
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
  /// "mlp.ech:15" alone.
  static std::string label(mlir::Location loc);

private:
  const frontend::SourceManager &sources;
};

class Printer : public Writer {
public:
  Printer(SizeTable &sizes, const Structs &structs, const SourceLines &sources, Probes *probes = nullptr)
      : probes(probes), sizes(sizes), structs(structs), sourceLines(sources) {}

  std::string name(mlir::Value value) override;
  std::string element(mlir::Value buffer) override;
  bool isVariable(mlir::Value buffer) override;
  std::string size(llvm::ArrayRef<ech::Axis> axes) override { return sizes.product(axes); }
  std::string define(mlir::Value ticket) override;
  void tickets(mlir::Value array, int64_t count) override;
  void call(mlir::Operation *op, llvm::StringRef head, llvm::ArrayRef<std::string> arguments,
            llvm::StringRef remark) override;
  void kernel(mlir::Operation *op) override;
  std::string place(mlir::Operation *op) override;
  void line(const llvm::Twine &text) override;
  void open(const llvm::Twine &head) override;
  void close() override;
  void assign(llvm::StringRef target, llvm::StringRef op, llvm::StringRef expression) override;
  void sources(llvm::ArrayRef<mlir::Operation *> ops) override;
  void block(mlir::Block &block) override;

  /// Prints one operation, declarations before it included.
  void operation(mlir::Operation &op);
  /// Prints a function: `head`, the structs that it uses, made of `r`, and what `body` prints.
  void function(const llvm::Twine &head, llvm::function_ref<void()> body);
  /// The text so far.
  const std::string &text() const { return written; }
  /// Where the program is to be profiled, else null.
  Probes *probes;

private:
  /// An open brace: what was declared in it, and whether it can go without.
  struct Scope {
    size_t brace;       ///< where its brace stands in the text
    int statements = 0; ///< a comment or a declaration counts as two
    llvm::SmallVector<mlir::Value> values;
  };

  void declare(mlir::Value value);
  void keep(mlir::Value value);
  std::string member(mlir::Operation *op);
  void comment(llvm::ArrayRef<std::string> texts);
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
  llvm::StringSet<> used; // structs
  std::string lastSource;
};

/// "[batch=32, hidden=128]".
std::string describe(rt::Buffer type);
/// "[batch, hidden]", by the names of sizes; a size without a name stands beside its axis: "[row=14]".
std::string shape(rt::Buffer type, SizeTable &sizes);

/// Writes `head{parts…}end` at a column with parts filled into lines.
std::string filled(llvm::StringRef head, llvm::ArrayRef<std::string> parts, llvm::StringRef end, size_t indent);

} // namespace echelon::codegen
