// How a rank ends when it cannot go on.
#pragma once

#include "runtime/launch/Printable.h"

#include <string>

namespace echelon::runtime {

class Transport;

/// Prints `echelon: rank R: message` on standard error and ends this rank with exit code 4; the launcher then stops the
/// others. When several ranks fail at once only the first one's message is printed. Outside of a rank (before launch)
/// it prints `echelon: message` and ends the program with exit code 4.
[[noreturn]] void fail(const std::string &message);

/// Prints `echelon: message` on standard error. Messages name files and quote what is in them: here, and wherever else
/// a program prints what is not its own, that goes through printable().
void complain(const std::string &message);

/// Thrown by fail() where ranks are threads, so that the rest of the process can still stop in order. It is caught by
/// launch() and by nobody else.
struct RankStopped {};

/// Makes `transport` the one whose rank the calling thread is, or the whole process is (helper threads of a kernel
/// included); nullptr: none. launch() does this.
void setRankOfThread(Transport *transport);
void setRankOfProcess(Transport *transport);

} // namespace echelon::runtime
