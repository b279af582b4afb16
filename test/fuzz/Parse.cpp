// The front end without MLIR: a spec is parsed, its train blocks planned, its text formatted.
#include "frontend/Parse.h"
#include "frontend/ast/Dump.h"
#include "frontend/fmt/Format.h"
#include "frontend/train/TrainPlan.h"
#include "test/fuzz/Input.h"

using namespace echelon;
using namespace echelon::frontend;

static bool internal(const std::string &text) { return text.find("E0799") != std::string::npos; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  const FileId id = sources.add("spec.ech", std::string(reinterpret_cast<const char *>(data), size));
  const std::unique_ptr<Program> program = parseProgram(sources, id, diagnostics);
  if (program) {
    for (const Train &train : program->main().trains)
      planTrain(*program, train, diagnostics);
    dump(*program, sources);
  }
  fuzz::expect(!internal(diagnostics.text()));

  Diagnostics ofFormat(sources);
  const std::optional<std::string> text = format(sources, id, ofFormat);
  fuzz::expect(!internal(ofFormat.text()) && text.has_value() != ofFormat.hasErrors());
  if (text) // what is formatted stays as it is
    fuzz::expect(format(sources, sources.add("formatted.ech", *text), ofFormat) == text);
  return 0;
}
