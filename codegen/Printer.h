// The C++ text of functions: lines, line breaks, comments with the user's source, declarations where they are needed.
#pragma once
#include "codegen/Names.h"
#include "codegen/Probes.h"
#include "frontend/Source.h"
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

class Printer : public rt::Writer {
public:
  Printer(Names &names, const SourceLines &sources, llvm::raw_ostream &os)
      : names(names), sourceLines(sources), os(os) {}

  std::string name(mlir::Value value) override;
  std::string define(mlir::Value ticket) override;
  void tickets(mlir::Value array, int64_t count) override;
  std::string local(llvm::StringRef wanted) override;
  std::string fresh(llvm::StringRef wanted) override;
  void call(mlir::Operation *op, llvm::StringRef head, llvm::ArrayRef<std::string> arguments,
            llvm::StringRef remark) override;
  std::string place(mlir::Operation *op) override;
  void line(const llvm::Twine &text) override;
  void open(const llvm::Twine &head) override;
  void close() override;
  void assign(llvm::StringRef target, llvm::StringRef op, llvm::StringRef expression) override;
  void sources(llvm::ArrayRef<mlir::Operation *> ops) override;
  void block(mlir::Block &block) override;

  /// Prints one operation, declarations before it included.
  void operation(mlir::Operation &op);
  /// Tickets that several functions share are members of `messages`.
  llvm::DenseSet<mlir::Value> shared;
  /// Where the program is to be profiled.
  Probes *probes = nullptr;

private:
  void declare(mlir::Value value);
  void comment(llvm::ArrayRef<std::string> texts);

  Names &names;
  const SourceLines &sourceLines;
  llvm::raw_ostream &os;
  size_t depth = 0;
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> scopes; // what was declared in each open brace
  llvm::SmallVector<llvm::SmallVector<std::string>> locals; // names of variables in each open brace
  llvm::SmallVector<std::string> loops;                     // names of loop variables of the statement
  llvm::DenseSet<mlir::Value> declared;
  std::string lastSource;
};

/// "[batch=32, hidden=128]".
std::string describe(rt::Buffer type);

/// Writes `head{parts…}end` at a column with parts filled into lines.
std::string filled(llvm::StringRef head, llvm::ArrayRef<std::string> parts, llvm::StringRef end, size_t indent);

} // namespace echelon::codegen
