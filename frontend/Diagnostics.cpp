#include "frontend/Diagnostics.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <sstream>
#include <unistd.h>

namespace echelon::frontend {

namespace {
constexpr size_t maximalTold = 100; // of errors, and of what is less

bool isError(const Diagnostic &d) { return d.severity == Severity::Error; }

const char *word(Severity severity) {
  switch (severity) {
  case Severity::Error:
    return "error";
  case Severity::Warning:
    return "warning";
  case Severity::Note:
    return "note";
  }
  return "";
}

// One column of a source line: a whole character, or '?' for what must not reach a terminal.
struct Column {
  std::string_view text;
  bool tab;
};

// At most `most` columns.
std::vector<Column> columns(std::string_view line, size_t most) {
  std::vector<Column> out;
  for (size_t i = 0; i < line.size() && out.size() < most;) {
    std::string_view own = line.substr(i, runtime::characterAt(line, i).bytes);
    bool tab = own == "\t";
    out.push_back({tab || printable(own) == own ? own : "?", tab});
    i += own.size();
  }
  return out;
}

// The source line and the caret below it; of a very long line, the part around the caret. Nothing here goes over more
// of the line than it prints.
void printLine(const SourceRange &range, const SourceManager &sources, std::ostream &os, const char *caret,
               const char *plain) {
  constexpr size_t widest = 160, before = 60;
  std::string_view line = sources.line(range.file, range.line);
  size_t at = std::min<size_t>(range.offset - sources.lineStart(range.file, range.line), line.size()), from = 0;
  if (columns(line, widest + 1).size() > widest) {
    from = at;
    for (size_t i = 0; i < before && from > 0; ++i)
      do
        --from;
      while (from > 0 && (line[from] & 0xC0) == 0x80); // whole characters
  }
  std::vector<Column> left = columns(line.substr(from, at - from), at - from);
  std::vector<Column> right = columns(line.substr(at), widest - left.size() + 1);
  bool cut = right.size() > widest - left.size();
  if (cut)
    right.pop_back();
  std::string_view text = sources.text(range);
  size_t length = columns(text.substr(0, text.find('\n')), right.size()).size();
  if (from)
    os << "…";
  for (const std::vector<Column> &part : {left, right})
    for (const Column &column : part)
      os << column.text;
  os << (cut ? "…\n" : "\n");
  if (from)
    os << ' ';
  for (const Column &column : left)
    os << (column.tab ? '\t' : ' ');
  os << caret << '^';
  for (size_t i = 1; i < length; ++i)
    os << '~';
  os << plain << '\n';
}
} // namespace

const std::vector<CodeEntry> &diagnosticCodes() {
  static const std::vector<CodeEntry> table = {
#define DIAGNOSTIC(NUMBER, NAME, TEXT) {Code::E##NUMBER, NAME, TEXT},
#include "frontend/DiagnosticCodes.def"
#undef DIAGNOSTIC
  };
  return table;
}

std::string spell(Code code, Severity severity) {
  char text[8];
  std::snprintf(text, sizeof text, "%c%04u", severity == Severity::Error ? 'E' : 'W', unsigned(code) % 10000u);
  return text;
}

Diagnostic &Diagnostics::report(Code code, Severity severity, SourceRange range, std::string message) {
  list.push_back({code, severity, range, std::move(message), {}});
  errors += severity == Severity::Error;
  codes.insert(code);
  return list.back();
}

std::vector<Diagnostic> Diagnostics::sorted() const {
  std::vector<Diagnostic> all(list.begin(), list.end());
  std::stable_sort(all.begin(), all.end(), [](const Diagnostic &a, const Diagnostic &b) {
    return std::make_pair(a.range.file, a.range.offset) < std::make_pair(b.range.file, b.range.offset);
  });
  std::vector<Diagnostic> out;
  size_t errors = 0, others = 0;
  for (Diagnostic &d : all) {
    bool told = false;
    for (auto it = out.rbegin();
         it != out.rend() && it->range.file == d.range.file && it->range.offset == d.range.offset; ++it)
      told |= it->code == d.code && (d.range.valid() || it->message == d.message);
    if (!told && ++(isError(d) ? errors : others) <= maximalTold)
      out.push_back(std::move(d));
  }
  auto tellRest = [&](Severity severity, size_t count, const char *what) {
    if (count > maximalTold)
      out.push_back(
          {Code::E0705,
           severity,
           {},
           std::string("too many ") + what + "; " + std::to_string(count - maximalTold) + " more are not shown",
           {}});
  };
  tellRest(Severity::Note, others, "notes and warnings");
  tellRest(Severity::Error, errors, "errors");
  return out;
}

void print(const Diagnostic &d, const SourceManager &sources, std::ostream &os, bool colours) {
  const char *bold = colours ? "\x1b[1m" : "", *plain = colours ? "\x1b[0m" : "", *green = colours ? "\x1b[1;32m" : "";
  const char *paint = !colours                          ? ""
                      : d.severity == Severity::Error   ? "\x1b[1;31m"
                      : d.severity == Severity::Warning ? "\x1b[1;35m"
                                                        : "\x1b[1;36m";
  auto place = [&](const SourceRange &r) {
    return sources.name(r.file) + ":" + std::to_string(r.line) + ":" + std::to_string(r.column) + ": ";
  };
  os << bold;
  if (d.range.valid())
    os << place(d.range);
  os << plain << paint << word(d.severity) << '[' << spell(d.code, d.severity) << "]: " << plain << bold
     << printable(d.message, Lines::Indented) << plain << '\n';
  if (d.range.valid())
    printLine(d.range, sources, os, green, plain);
  for (const DiagnosticNote &note : d.notes) {
    os << (colours ? "\x1b[1;36m" : "") << "note: " << plain;
    if (note.range.valid())
      os << place(note.range);
    os << printable(note.message, Lines::Indented) << '\n';
  }
}

void Diagnostics::print(std::ostream &os, bool colours) const {
  for (const Diagnostic &d : sorted())
    frontend::print(d, sources, os, colours);
}

std::string Diagnostics::text() const {
  std::ostringstream os;
  print(os, false);
  return os.str();
}

bool wantsColours(int fileDescriptor) {
  const char *no = std::getenv("NO_COLOR");
  return isatty(fileDescriptor) && !(no && *no);
}

} // namespace echelon::frontend
