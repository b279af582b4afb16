// `echelon check`, and, for a spec without an error, what `echelon build --emit cpp` does before the host compiler.
#include "test/fuzz/Input.h"
#include "tools/driver/compile/Compilation.h"

using namespace echelon;

/// What MLIR's verifier says of an operation: `'ech.NAME' op …`.
static bool namesOperation(const std::string &text) {
  for (const std::string dialect : {"'ech.", "'dist.", "'rt.", "'builtin."})
    for (size_t at = text.find(dialect); at != text.npos; at = text.find(dialect, at + 1))
      if (const size_t end = text.find_first_of("' \n", at + dialect.size());
          end != text.npos && text.compare(end, 5, "' op ") == 0)
        return true;
  return false;
}

/// The compiler's own faults are findings, too: internal errors, and what MLIR's verifier says, unless that is what the
/// spec itself says.
static void expectOurs(const std::string &text, const std::string &spec) {
  fuzz::expect(!namesOperation(text) || namesOperation(spec));
  fuzz::expect(!fuzz::hasInternalError(text, spec));
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
  if (compilation.parse() && compilation.resolve() && compilation.elaborate() && compilation.lower(Stage::Rt))
    compilation.emit(program);
  expectOurs(compilation.diagnostics.text(), spec);
  return 0;
}
