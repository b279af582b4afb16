// `--set optimize.lr=3e-4`: one value of a train block, replaced in the spec's text before it is parsed again, so that
// a setting can say whatever the language can, and is checked as if it stood in the file.
#pragma once
#include "frontend/ast/Ast.h"
#include <string>
#include <vector>

namespace echelon {

/// The text of the spec with every setting applied to `train`. A path is a clause's word (`batch`, `steps`, `seed`,
/// `model`, `optimize`, `evaluate`, `layout`, …), then names of arguments (`optimize.lr.peak`, `model.width`) or of
/// mesh axes (`layout.dp`). An argument that is not written yet is added, and so are the clauses `precision`,
/// `recompute` and `seed`. On an error `why` says what is wrong, and the answer is empty.
std::string applySettings(const frontend::SourceManager &sources, const frontend::Train &train,
                          const std::vector<std::string> &settings, std::string &why);

/// Whether the settings have changed values alone: the train block has the clauses that it had, and those that were set
/// without being written.
bool onlySet(const frontend::Train &before, const frontend::Train &after, const std::vector<std::string> &settings);

} // namespace echelon
