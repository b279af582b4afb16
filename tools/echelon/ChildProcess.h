// Programs started with fork and exec, so that no name in a path is ever read by a shell.
#pragma once
#include <string>
#include <vector>

namespace echelon {

// What runProgram returns where the program has no exit status of its own.
constexpr int kNotStarted = 127; // exec could not start it
constexpr int kNoProcess = -1;   // fork made no process, and that has been printed

/// Becomes the program: execv of what PATH has, so that a file that is no program is refused and never given to a
/// shell, as execvp would. Returns only when that fails, with the reason in errno.
void execute(const std::vector<std::string> &arguments);

/// In a handler of SIGTSTP: stops this process as Ctrl-Z does without one, and returns when it goes on.
void stopUntilContinued();

/// What a program prints, kept in a file that has no name.
class CapturedOutput {
public:
  CapturedOutput();
  ~CapturedOutput();
  CapturedOutput(const CapturedOutput &) = delete;

  /// -1: there is none, and a program that should write to it is not started.
  int descriptor() const { return file; }
  std::string text() const;

private:
  int file;
};

/// Runs a program and waits. Its standard output and error go to `output`, and its temporary files to the folder
/// `temporary` where that is not empty. Returns its exit status (128 + N when signal N ended it, which ends all that it
/// started), kNotStarted or kNoProcess. SIGINT, SIGTERM and SIGHUP end it with all that it started, and then this
/// process, whose temporary folders go; with Ctrl-Z it stands still, too.
int runProgram(const std::vector<std::string> &arguments, const CapturedOutput &output,
               const std::string &temporary = "");

} // namespace echelon
