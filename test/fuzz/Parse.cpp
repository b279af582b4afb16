// The front end without MLIR: a spec is parsed, its train blocks planned, its text formatted.
#include "frontend/Parse.h"
#include "frontend/ast/Dump.h"
#include "frontend/fmt/Format.h"
#include "frontend/resolve/RunSettings.h"
#include "test/fuzz/Input.h"

using namespace echelon;
using namespace echelon::frontend;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string spec = fuzz::Input(data, size).rest();
  SourceManager sources;
  Diagnostics diagnostics(sources);
  const FileId id = sources.add("spec.ech", spec);
  const std::unique_ptr<Program> program = parseProgram(sources, id, diagnostics);
  if (program) {
    for (const Train &train : program->main().trains)
      resolveTrain(*program, train, diagnostics);
    dump(*program, sources);
  }
  fuzz::expect(!fuzz::hasInternalError(diagnostics.text(), spec));

  Diagnostics ofFormat(sources);
  const std::optional<std::string> text = format(sources, id, ofFormat);
  fuzz::expect(!fuzz::hasInternalError(ofFormat.text(), spec) && text.has_value() != ofFormat.hasErrors());
  if (text) // what is formatted stays as it is
    fuzz::expect(format(sources, sources.add("formatted.ech", *text), ofFormat) == text);
  return 0;
}
