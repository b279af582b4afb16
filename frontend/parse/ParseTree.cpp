#include "frontend/parse/ParseTree.h"
#include "frontend/parse/SyntaxErrors.h"
#include <BailErrorStrategy.h>
#include <atn/ParserATNSimulator.h>

using namespace antlr4;

namespace echelon::frontend {

// SLL prediction is enough for every correct file; only when it fails is the file parsed again with full context and
// with error reports.
ParseTree::ParseTree(const SourceManager &sources, FileId file, Diagnostics &diagnostics)
    : places(sources, file), input(std::string(sources.text(file))), lexer(&input), stream(&lexer), parser(&stream) {
  lexer.removeErrorListeners(); // every character is some token
  parser.removeErrorListeners();
  failed = !stream.fill(places, diagnostics) || !prepareTokens(stream, places, diagnostics);
  if (failed)
    return;
  auto *simulator = parser.getInterpreter<atn::ParserATNSimulator>();
  simulator->setPredictionMode(atn::PredictionMode::SLL);
  parser.setErrorHandler(std::make_shared<BailErrorStrategy>());
  try {
    root = parser.file();
    return;
  } catch (const ParseCancellationException &) {
  }
  stream.seek(0);
  parser.reset();
  simulator->setPredictionMode(atn::PredictionMode::LL);
  parser.setErrorHandler(std::make_shared<SyntaxErrors>(places, diagnostics));
  size_t before = diagnostics.errorCount();
  root = parser.file();
  failed = diagnostics.errorCount() != before || parser.getNumberOfSyntaxErrors() != 0;
}

} // namespace echelon::frontend
