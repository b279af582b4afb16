// From generated C++ to an executable: the host compiler, called without a shell.
#pragma once
#include <string>
#include <vector>

namespace echelon {

constexpr int kNotStarted = 127; // exit status of a program that could not be started

/// Becomes the program: execv of what PATH has, so that a file that is no program is refused and never given to a
/// shell, as execvp would. Returns only when that fails, with the reason in errno.
void execute(const std::vector<std::string> &arguments);

/// In a handler of SIGTSTP: stops this process as Ctrl-Z does without one, and returns when it goes on.
void stopUntilContinued();

/// Runs a program and waits; its standard output and error go to `outputFile` and its temporary files to the folder
/// `temporary`, where these are not empty. Returns its exit status (128 + N when signal N ended it, which ends all that
/// it started). SIGINT, SIGTERM and SIGHUP end it with all that it started, and then this process, whose temporary
/// folders go; with Ctrl-Z it stands still, too.
int runProgram(const std::vector<std::string> &arguments, const std::string &outputFile = "",
               const std::string &temporary = "");

/// What the host compiler is called with to build `source` into `executable`: $CXX or the compiler that built Echelon,
/// the flags of the runtime and those of $CXXFLAGS, the runtime library.
std::vector<std::string> hostCommand(const std::string &source, const std::string &executable);

/// Compiles; returns the exit status as runProgram does, and unless it is 0, `log` holds what was said.
int compileHost(const std::string &source, const std::string &executable, std::string &log);

} // namespace echelon
