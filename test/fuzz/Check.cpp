// `echelon check`, and, for a spec without an error, what `echelon build --emit cpp` does before the host compiler.
#include "test/fuzz/Input.h"
#include "tools/echelon/Compilation.h"

using namespace echelon;

/// The compiler's own faults are findings, too: internal errors, and what MLIR's verifier says of an operation. What
/// the spec itself says may be quoted.
static void expectOurs(const std::string &text, const std::string &spec) {
  for (const char *sign : {"E0799", "'ech.", "'dist.", "'rt.", "'builtin."})
    fuzz::expect(text.find(sign) == std::string::npos || spec.find(sign) != std::string::npos);
}

/// What specs may name: data and an import, small.
static void writeFiles(const fuzz::Folder &folder) {
  folder.write("part.ech", "block part(x, e: axis) {\n  param w[e] ~ ones\n  return x * w\n}\n");
  folder.write("t.txt", std::string(4096, 'a'));
  folder.write("t.csv", "a,b\n1,2\n3,4\n");
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }";
  header.resize(117, ' ');
  folder.write("t.npy", "\x93NUMPY" + std::string("\x01\x00\x76\x00", 4) + header + "\n" + std::string(32, '\0'));
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  static const bool ready = (writeFiles(folder), true);
  (void)ready;
  const std::string spec = fuzz::Input(data, size).rest();
  folder.write("spec.ech", spec);
  CompileOptions options;
  options.spec = folder.path() + "/spec.ech";
  options.allowNotBuilt = true;
  {
    Compilation compilation(options);
    compilation.check();
    expectOurs(compilation.diagnostics.text(), spec);
    if (compilation.diagnostics.hasErrors())
      return 0;
  }
  options.allowNotBuilt = false;
  Compilation compilation(options);
  std::string program;
  if (compilation.parse() && compilation.plan() && compilation.elaborate() && compilation.lower(Stage::Rt))
    compilation.emit(program);
  expectOurs(compilation.diagnostics.text(), spec);
  return 0;
}
