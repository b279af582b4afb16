// Standard input, output and error of a process.
#pragma once

namespace echelon::runtime {

/// Opens those that are closed, as /dev/null: else a file that is opened later, a log or a snapshot, would take their
/// place, and what is printed would go into it.
void openStandardDescriptors();

} // namespace echelon::runtime
