#include "frontend/Parse.h"
#include "frontend/parse/AstBuilder.h"
#include "frontend/parse/SyntaxErrors.h"
#include <BailErrorStrategy.h>
#include <atn/ParserATNSimulator.h>

using namespace antlr4;

namespace echelon::frontend {

namespace {
// SLL prediction is enough for every correct file; only when it fails is the file parsed again with full context and
// with error reports.
EchelonParser::FileContext *parseTokens(EchelonParser &parser, CommonTokenStream &tokens, const Places &places,
                                        Diagnostics &diagnostics, bool &failed) {
  parser.removeErrorListeners();
  auto *simulator = parser.getInterpreter<atn::ParserATNSimulator>();
  simulator->setPredictionMode(atn::PredictionMode::SLL);
  parser.setErrorHandler(std::make_shared<BailErrorStrategy>());
  try {
    return parser.file();
  } catch (const ParseCancellationException &) {
  }
  tokens.seek(0);
  parser.reset();
  simulator->setPredictionMode(atn::PredictionMode::LL);
  parser.setErrorHandler(std::make_shared<SyntaxErrors>(places, diagnostics));
  size_t before = diagnostics.errorCount();
  EchelonParser::FileContext *tree = parser.file();
  failed = diagnostics.errorCount() != before || parser.getNumberOfSyntaxErrors() != 0;
  return tree;
}

std::unique_ptr<File> parseText(const SourceManager &sources, FileId id, Diagnostics &diagnostics) {
  if (!checkText(sources, id, diagnostics))
    return nullptr;
  Places places(sources, id);
  ANTLRInputStream input{std::string(sources.text(id))};
  EchelonLexer lexer(&input);
  lexer.removeErrorListeners(); // every character is some token
  CommonTokenStream tokens(&lexer);
  tokens.fill();
  if (!prepareTokens(tokens, places, diagnostics)) {
    auto file = std::make_unique<File>();
    file->id = id;
    file->broken = true;
    return file;
  }
  EchelonParser parser(&tokens);
  bool failed = false;
  EchelonParser::FileContext *tree = parseTokens(parser, tokens, places, diagnostics, failed);
  return AstBuilder(sources, places, diagnostics).build(tree, id, failed);
}
} // namespace

std::unique_ptr<File> parse(const SourceManager &sources, FileId id, Diagnostics &diagnostics) noexcept {
  std::string why;
  try {
    return parseText(sources, id, diagnostics);
  } catch (const std::exception &e) {
    why = e.what();
  } catch (...) {
    why = "unknown exception";
  }
  diagnostics.error(Code::E0799, {},
                    "internal error while parsing '" + escaped(sources.name(id)) + "': " + escaped(why) +
                        "; please report it with the file");
  return nullptr;
}

} // namespace echelon::frontend
