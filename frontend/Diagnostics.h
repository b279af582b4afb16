// What the compiler tells the user about a spec: errors, warnings and notes with a code, a place and what would be
// right.
#pragma once
#include "frontend/Source.h"
#include "runtime/launch/Nearest.h"
#include "runtime/launch/Printable.h"
#include <iosfwd>
#include <set>
#include <string>
#include <vector>

namespace echelon::frontend {

enum class Severity { Error, Warning, Note };

/// Every diagnostic the front end can give; `Code::E0312` has its number as value. The texts are in
/// DiagnosticCodes.def.
enum class Code : uint16_t {
#define DIAGNOSTIC(NUMBER, NAME, TEXT) E##NUMBER = 1##NUMBER - 10000,
#include "frontend/DiagnosticCodes.def"
#undef DIAGNOSTIC
};

/// What `echelon explain` knows of a code.
struct CodeEntry {
  Code code;
  const char *name; // short, in words: "duplicate clause"
  const char *text; // several lines, with an example
};
const std::vector<CodeEntry> &diagnosticCodes();
/// "E0312", or "W0601" for what is not an error.
std::string spell(Code code, Severity severity);

/// A further place that a diagnostic concerns; without a valid range it is printed as a plain `note: …`.
struct DiagnosticNote {
  SourceRange range;
  std::string message;
};

struct Diagnostic {
  Code code;
  Severity severity = Severity::Error;
  SourceRange range;
  std::string message; // lower case, no full stop: what is wrong, with which values; what would be right
  std::vector<DiagnosticNote> notes;

  Diagnostic &note(SourceRange where, std::string text) {
    notes.push_back({where, std::move(text)});
    return *this;
  }
  Diagnostic &note(std::string text) { return note(SourceRange(), std::move(text)); }
};

/// Collects the diagnostics of a run. Reporting never fails and never prints; `print` writes them sorted by file and
/// position, one per code and place.
class Diagnostics {
public:
  explicit Diagnostics(const SourceManager &sources) : sources(sources) {}

  Diagnostic &report(Code code, Severity severity, SourceRange range, std::string message);
  Diagnostic &error(Code code, SourceRange range, std::string message) {
    return report(code, Severity::Error, range, std::move(message));
  }
  Diagnostic &warning(Code code, SourceRange range, std::string message) {
    return report(code, Severity::Warning, range, std::move(message));
  }
  Diagnostic &note(Code code, SourceRange range, std::string message) {
    return report(code, Severity::Note, range, std::move(message));
  }

  size_t errorCount() const { return errors; }
  bool hasErrors() const { return errorCount() != 0; }
  /// Whether anything of that code was told.
  bool told(Code code) const { return codes.count(code) != 0; }
  /// Sorted by file and position; later ones of the same code at the same place are left out, and so are, but for a
  /// count, all after the first 100 errors and the first 100 others.
  std::vector<Diagnostic> sorted() const;

  /// Writes all of them as in `mlp.ech:33:12: error[E0312]: …`, the source line, a caret, notes.
  void print(std::ostream &os, bool colours) const;
  std::string text() const; // the same, without colours

private:
  const SourceManager &sources;
  std::deque<Diagnostic> list; // a deque: references given out stay valid
  size_t errors = 0;
  std::set<Code> codes; // of all in the list
};

void print(const Diagnostic &diagnostic, const SourceManager &sources, std::ostream &os, bool colours);
/// Colours only on a terminal, and not when NO_COLOR is set.
bool wantsColours(int fileDescriptor);

/// What is printed and is not ours (names of files, arguments, what the host compiler said) goes through `printable`:
/// no byte of it is a command to the terminal. `Diagnostics::print` does so itself.
using runtime::Lines;
using runtime::printable;
/// Text from a spec as it may appear in a message: on one line, printable, long text cut.
std::string escaped(std::string_view text);
/// The same in single quotes. (Overloads, so that argument-dependent lookup never prefers std::quoted.)
inline std::string quoted(std::string_view text) { return "'" + escaped(text) + "'"; }
inline std::string quoted(const std::string &text) { return quoted(std::string_view(text)); }
inline std::string quoted(std::string &text) { return quoted(std::string_view(text)); }
inline std::string quoted(const char *text) { return quoted(std::string_view(text)); }
/// "a", "a and b", "a, b and c" (or with another last word).
std::string listed(const std::vector<std::string> &words, const char *last = "and");
using runtime::nearest;
/// "; did you mean 'x'?", or "" when no known word is near.
std::string didYouMean(std::string_view word, const std::vector<std::string> &known);

} // namespace echelon::frontend
