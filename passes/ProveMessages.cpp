// rt-prove-messages: no rank waits for ever, each message meets its own, and what is under way is left alone.
//
// 1. Each function is followed as it runs on each party of ranks (prove/Parties.h), with its loops: what it starts,
// waits
//    for and touches, as bytes (prove/Walk.h).
// 2. Of one rank: what a message reads or writes is left alone until the rank has waited for it, each is waited for,
// and
//    buffers lie where memory is planned right (prove/Alone.h).
// 3. Of all ranks together: an abstract run, in which messages meet (prove/Meeting.h).
// 4. Functions follow each other with nothing under way between them, in an order that all ranks take alike; under a
// sync
//    policy, what workers run by themselves has no messages between workers.
#include "passes/Passes.h"
#include "passes/prove/Prove.h"

namespace echelon {
#define GEN_PASS_DEF_PROVEMESSAGES
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
struct ProveMessages : echelon::impl::ProveMessagesBase<ProveMessages> {
  void runOnOperation() override {
    prove::Proof proof;
    prove::Verdict refused = prove::prove(getOperation(), proof);
    if (!refused)
      return;
    InFlightDiagnostic error = refused->at->emitError();
    error << "E0798: internal error, please report: " << refused->text;
    for (const auto &[at, text] : refused->notes)
      error.attachNote(at->getLoc()) << text;
    signalPassFailure();
  }
};
} // namespace
