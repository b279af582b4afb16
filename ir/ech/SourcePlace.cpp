#include "ir/ech/SourcePlace.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace echelon;

FileLineColLoc ech::sourceLine(Location loc) {
  if (auto named = dyn_cast<NameLoc>(loc))
    return sourceLine(named.getChildLoc());
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (FileLineColLoc line = sourceLine(part))
        return line;
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return sourceLine(call.getCaller());
  return dyn_cast<FileLineColLoc>(loc);
}

std::string ech::sourcePlace(Location loc) {
  FileLineColLoc line = sourceLine(loc);
  if (!line)
    return "";
  StringRef file = llvm::sys::path::filename(line.getFilename().getValue());
  if (file.consume_front("<")) // of the library
    file.consume_back(">");
  return (file + ":" + Twine(line.getLine())).str();
}
