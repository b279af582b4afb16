// Lines of functions.
#include "codegen/Printer.h"
#include "codegen/Text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

//===- the user's lines ------------------------------------------------------------------------------------------===//

namespace {
FileLineColLoc placeOf(Location loc) {
  if (auto named = dyn_cast<NameLoc>(loc))
    return placeOf(named.getChildLoc());
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (FileLineColLoc place = placeOf(part))
        return place;
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return placeOf(call.getCaller());
  return dyn_cast<FileLineColLoc>(loc);
}

/// The line of the library that an operation comes from; null where the spec's own line makes it.
FileLineColLoc libraryPlaceOf(Location loc) {
  if (auto named = dyn_cast<NameLoc>(loc))
    return libraryPlaceOf(named.getChildLoc());
  auto fused = dyn_cast<FusedLoc>(loc);
  if (!fused)
    return {};
  if (auto place = dyn_cast_or_null<FileLineColLoc>(fused.getMetadata()))
    return place;
  for (Location part : fused.getLocations())
    if (placeOf(part))
      return libraryPlaceOf(part);
  return {};
}

std::string labelOf(FileLineColLoc place) {
  StringRef file = llvm::sys::path::filename(place.getFilename().getValue());
  if (file.consume_front("<")) // of the library
    file.consume_back(">");
  return (file + ":" + Twine(place.getLine())).str();
}
} // namespace

std::string SourceLines::label(Location loc) {
  FileLineColLoc place = placeOf(loc);
  if (!place)
    return "";
  return labelOf(place);
}

std::string SourceLines::of(Location loc) const {
  FileLineColLoc place = placeOf(loc);
  if (!place)
    return "";
  std::string text = label(loc);
  if (FileLineColLoc library = libraryPlaceOf(loc)) {
    text = labelOf(library) + " at " + text;
    place = library;
  }
  for (size_t f = 0; f < sources.size(); ++f)
    if (sources.name(static_cast<int>(f)) == place.getFilename().getValue()) {
      StringRef line(sources.line(static_cast<int>(f), place.getLine()).data(),
                     sources.line(static_cast<int>(f), place.getLine()).size());
      line = line.trim();
      if (!line.empty())
        text += ("  " + line).str();
      break; // a file that was read twice says it once
    }
  return text;
}

//===- lines -----------------------------------------------------------------------------------------------------===//

std::string codegen::filled(StringRef head, ArrayRef<std::string> parts, StringRef end, size_t indent) {
  std::string text(indent, ' ');
  text += head;
  size_t column = text.size(), continued = column;
  for (auto [i, part] : llvm::enumerate(parts)) {
    bool last = i + 1 == parts.size();
    size_t needs = part.size() + (last ? end.size() : 1);
    if (i > 0) {
      if (column + 1 + needs > kLineLength) {
        text += "\n" + std::string(continued, ' ');
        column = continued;
      } else {
        text += " ";
        ++column;
      }
    }
    text += part;
    column += part.size();
    if (!last) {
      text += ",";
      ++column;
    }
  }
  return text + end.str();
}

void Printer::line(const Twine &text) {
  std::string s = text.str();
  os.indent(s[0] == '#' ? 0 : 2 * depth) << s << "\n";
}
void Printer::open(const Twine &head) {
  line(head);
  ++depth;
  lastSource.clear();
  scopes.emplace_back();
  locals.emplace_back();
}
void Printer::close() {
  for (Value v : scopes.pop_back_val())
    declared.erase(v);
  for (const std::string &name : locals.pop_back_val())
    names.release(name);
  --depth;
  line("}");
  lastSource.clear();
}

void Printer::call(Operation *op, StringRef head, ArrayRef<std::string> arguments, StringRef remark) {
  std::string text = filled((head + "(").str(), arguments, ");", 2 * depth);
  std::string source = sourceLines.of(op->getLoc());
  if (!remark.empty())
    source = source.empty() ? remark.str() : SourceLines::label(op->getLoc()) + "  " + remark.str();
  comment({source});
  os << text << "\n";
}

std::string Printer::place(Operation *op) {
  std::string label = SourceLines::label(op->getLoc());
  return label.empty() ? "" : quoted(label);
}

/// Above the statement, and not again where the statement before came from the same lines: behind it, the column would
/// depend on numbers.
void Printer::comment(ArrayRef<std::string> texts) {
  std::string all = llvm::join(texts, "\n");
  if (all == lastSource)
    return;
  lastSource = all;
  for (StringRef text : texts) {
    std::string rest = commented(text);
    const size_t length = kLineLength - 3 - 2 * depth;
    for (std::string indent; !rest.empty(); indent = "    ") { // wrapped at the last space that fits
      size_t end = rest.size() + indent.size() <= length ? rest.size() : rest.rfind(' ', length - indent.size());
      if (end == std::string::npos || end == 0)
        end = std::min(rest.find(' '), rest.size());
      line("// " + indent + commented(StringRef(rest).take_front(end)));
      rest = StringRef(rest).drop_front(end).ltrim().str();
    }
  }
}

void Printer::assign(StringRef target, StringRef op, StringRef expression) {
  std::string text = (target + " " + op + " " + expression + ";").str();
  if (2 * depth + text.size() <= kLineLength) {
    line(text);
    return;
  }
  if (2 * depth + 4 + expression.size() + 1 <= kLineLength) { // whole on a line of its own
    line(target + " " + op);
    os.indent(2 * depth + 4) << expression << ";\n";
    return;
  }
  // break before the limit, behind an operator or a comma, at the outermost bracket possible
  std::string rest = text;
  size_t indent = 2 * depth;
  while (indent + rest.size() > kLineLength) {
    size_t limit = kLineLength - indent, at = 0;
    int level = 0, best = INT_MAX;
    for (size_t i = 0; i + 1 < rest.size() && i < limit; ++i) {
      level += rest[i] == '(' || rest[i] == '[' ? 1 : rest[i] == ')' || rest[i] == ']' ? -1 : 0;
      bool behind = rest[i + 1] == ' ' && StringRef("=+-*/,?:&|<>").contains(rest[i]);
      if (behind && i > limit / 3 && level <= best) {
        best = level;
        at = i + 1;
      }
    }
    if (!at)
      break;
    os.indent(indent) << rest.substr(0, at) << "\n";
    rest = rest.substr(at + 1);
    indent = 2 * depth + 4;
  }
  os.indent(indent) << rest << "\n";
}

void Printer::sources(ArrayRef<Operation *> ops) {
  SmallVector<std::string> texts;
  for (Operation *op : ops) {
    std::string text = sourceLines.of(op->getLoc());
    if (!text.empty() && !llvm::is_contained(texts, text))
      texts.push_back(text);
  }
  if (texts.size() > 4) {
    std::string more = "and " + std::to_string(texts.size() - 3) + " lines more";
    texts.resize(3);
    texts.push_back(more);
  }
  comment(texts);
}

//===- values ----------------------------------------------------------------------------------------------------===//

std::string codegen::describe(rt::Buffer type) {
  std::string text = "[";
  for (const ech::Axis &a : type.getAxes())
    text += (text.size() > 1 ? ", " : "") + a.name.str() + "=" + std::to_string(a.size);
  return text + "]";
}

void Printer::declare(Value value) {
  const std::string &own = names.of(value);
  const bool isKnown = llvm::any_of(scopes, [&](ArrayRef<Value> scope) {
    return llvm::any_of(scope, [&](Value other) { return names.of(other) == own; });
  });
  declared.insert(value);
  if (!scopes.empty())
    scopes.back().push_back(value);
  if (isKnown) // the same part of a buffer, seen with other axes
    return;
  Operation *op = value.getDefiningOp();
  if (auto alloc = dyn_cast<rt::AllocOp>(op)) {
    std::string type = rt::storedAs(rt::buffer(value).getElement()).str();
    StringRef arena = rt::stringifyArena(alloc.getArena());
    line(((alloc.getArena() == rt::Arena::Input ? "const " : "") + type + " *" + own + " /* " +
          describe(rt::buffer(value)) + " */ = r." + arena + "<" + type + ">(" +
          std::to_string(alloc.getOffset().value_or(0)) + ");")
             .str());
  } else if (auto view = dyn_cast<rt::ViewOp>(op)) {
    bool constant = rt::allocOf(view.getBase()).getArena() == rt::Arena::Input;
    std::string text = name(view.getBase());
    if (view.getOffset())
      text += " + " + std::to_string(view.getOffset());
    for (auto [index, factor] : llvm::zip(view.getIndices(), view.getFactors()))
      text += " + " + name(index) + (factor == 1 ? "" : " * " + std::to_string(factor));
    line(((constant ? "const " : "") + rt::storedAs(rt::buffer(value).getElement()) + " *" + own + " = " + text + ";")
             .str());
  } else if (auto number = dyn_cast<rt::NumberOp>(op)) {
    line((number.getType().isF64() ? "const double " : "const int64_t ") + own + " = " + number.getText() + ";");
  } else if (auto offset = dyn_cast<rt::OffsetOp>(op)) {
    offset.emit(*this);
  } else if (isa<rt::TicketType>(value.getType())) {
    line("Ticket " + own + ";");
  }
}

std::string Printer::name(Value value) {
  if (shared.contains(value))
    return "messages." + names.of(value);
  if (auto number = value.getDefiningOp<rt::NumberOp>()) {
    StringRef text = number.getText();
    if (llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_'; }) || text.ends_with("Count()") ||
        text.ends_with("Samples()"))
      return text.str();
  }
  if (auto view = value.getDefiningOp<rt::ViewOp>(); view && view.getOffset() == 0 && view.getIndices().empty())
    return name(view.getBase());
  if (isa<BlockArgument>(value) || declared.contains(value))
    return names.of(value);
  if (value.getDefiningOp<rt::OffsetOp>()) { // its own line names it
    declared.insert(value);
    if (!scopes.empty())
      scopes.back().push_back(value);
    value.getDefiningOp<rt::OffsetOp>().emit(*this);
    return names.of(value);
  }
  declare(value);
  return names.of(value);
}

std::string Printer::define(Value ticket) {
  if (shared.contains(ticket))
    return name(ticket);
  declared.insert(ticket);
  if (!scopes.empty())
    scopes.back().push_back(ticket);
  return "Ticket " + names.of(ticket);
}

void Printer::tickets(Value array, int64_t count) {
  if (!shared.contains(array))
    line(define(array) + "[" + Twine(count) + "];");
}

std::string Printer::local(StringRef wanted) {
  std::string name = names.fresh(wanted);
  if (!locals.empty())
    locals.back().push_back(name);
  return name;
}

std::string Printer::fresh(StringRef wanted) { return loops.emplace_back(names.fresh(wanted)); }

void Printer::operation(Operation &op) {
  if (isa<rt::AllocOp, rt::ViewOp, rt::NumberOp, rt::OffsetOp>(op))
    return; // declared where they are first used
  cast<rt::Printable>(op).emit(*this);
  if (std::string lap = probes ? probes->behind(op) : ""; !lap.empty())
    line(lap);
  if (isa<rt::ForOp>(op))
    return;
  for (const std::string &name : loops)
    names.release(name);
  loops.clear();
}

void Printer::block(Block &block) {
  for (Operation &op : block)
    operation(op);
}
