// Scopes: what names stand for at the place that is being elaborated, and where that place is for the user.
//
// Scopes are calls: the model's own, and one for each call of a block, entered and left as on a stack. The text of a
// library's block is not the user's: its errors are reported at the user's call, and its axes by the user's names.
#pragma once
#include "frontend/Diagnostics.h"
#include "frontend/ast/Ast.h"
#include "frontend/elaborate/Value.h"
#include <map>

namespace echelon::frontend {

/// A parameter or state, as one call sees it.
struct Stored {
  std::string path;
  ech::Tensor type; // with the axes of its repeats in front
  size_t loops = 0; // around its declaration, `repeat along` counted
  SourceRange range, usersPlace;
  bool isNew = false; // in evaluation: training does not have it
  bool hasNext = false;
  SourceRange nextRange;
};

struct Scope {
  const Block *block = nullptr; // null: the model
  const File *file = nullptr;   // names are looked up from here
  const Body *body = nullptr;
  Scope *caller = nullptr;
  SourceRange callRange;  // of the call, in the caller
  std::string prefix;     // of parameters' paths: "" or "layer.attn."
  std::string callPrefix; // of this call, without its own repeats
  bool sharing = false;   // `with`: parameters exist already
  bool isLibrary = false; // its text is the library's: errors are reported at the call
  std::map<std::string, Val> values;
  std::map<std::string, SourceRange> gone; // locals of a repeat that has ended
  std::map<std::string, const AxisInfo *> axes;
  std::map<std::string, Stored *> states;
  std::map<std::string, SourceRange> declared; // parameters, states, inputs
  std::map<std::string, SourceRange> reported; // losses and metrics
  std::map<const CallExpr *, std::string> callNames;
  std::map<std::string, SourceRange> given; // by formal: the argument, as it is in the caller
  std::optional<Val> result;
  bool mayReturn = false; // in what was left out for an error in it
};

class Scopes {
public:
  Scopes(mlir::MLIRContext &context, const SourceManager &sources, Diagnostics &diagnostics)
      : context(context), sources(sources), diagnostics(diagnostics) {}

  /// The innermost.
  Scope &here() const { return *innermost; }
  /// Makes a scope the innermost until it goes out of scope itself.
  class Entered {
  public:
    Entered(Scopes &scopes, Scope &inner) : scopes(scopes), outer(scopes.innermost) { scopes.innermost = &inner; }
    ~Entered() { scopes.innermost = outer; }
    Entered(const Entered &) = delete;

  private:
    Scopes &scopes;
    Scope *outer;
  };

  //===- errors and places --------------------------------------------------------------------------------------===//

  /// Reports an error at `range`, or, inside the library, at the user's call; with notes at the calls around.
  frontend::Diagnostic &error(Code code, SourceRange range, std::string message);
  frontend::Diagnostic &warning(Code code, SourceRange range, std::string message);
  /// Where the user wrote it: what the library does is at the place of its call.
  SourceRange usersPlace(SourceRange range) const;
  mlir::Location location(SourceRange range) const;
  bool isInLibrary() const { return innermost->isLibrary; }
  /// The innermost calls around this place that are not the library's, each with the text of a note.
  std::vector<std::pair<SourceRange, std::string>> callsAround(size_t most) const;

  //===- names --------------------------------------------------------------------------------------------------===//

  /// Null: there is none of that name, or it was declared wrongly.
  const AxisInfo *findAxis(const std::string &name) const;
  /// Null after an error.
  const AxisInfo *axis(const Ident &name);
  /// The user's name of an axis of a type; null where the user has none, as of a private axis of a block.
  const std::string *nameOf(mlir::StringAttr axis) const;
  /// The same, or else its name in types.
  std::string written(mlir::StringAttr axis) const;

private:
  mlir::MLIRContext &context;
  const SourceManager &sources;
  Diagnostics &diagnostics;
  Scope *innermost = nullptr;
};

} // namespace echelon::frontend
