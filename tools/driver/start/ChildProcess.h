// Programs started with fork and exec, so that no name in a path is ever read by a shell.
#pragma once
#include <string>
#include <sys/types.h>
#include <vector>

namespace echelon {

// What runProgram returns where the program has no exit status of its own.
constexpr int kNotStarted = 127; // exec could not start it
constexpr int kNoProcess = -1;   // there was no process, or nobody knows how it ended; that has been printed

/// Becomes the program: execv of what PATH has, so that a file that is no program is refused and never given to a
/// shell, as execvp would. Returns only when that fails, with the reason in errno.
void execute(const std::vector<std::string> &arguments);

/// First thing in a forked process: a group of its own, which Ctrl-C does not reach, and SIGTERM when `parent` ends.
void beginChild(pid_t parent);

/// In a handler of SIGTSTP: sends `signal` to a child (a number as kill takes it; 0: there is none), stops this process
/// as Ctrl-Z does without a handler, and has the child go on when it does. Keeps errno.
void stopWith(pid_t child, int signal);

/// What a program prints, kept in a file that has no name.
class CapturedOutput {
public:
  CapturedOutput();
  ~CapturedOutput();
  CapturedOutput(const CapturedOutput &) = delete;

  /// False: there is none, which is printed, and a program that should write to it is not to be started.
  bool isThere() const;
  std::string text() const;
  /// In a forked process: has it print here, in English and UTF-8, since what it says is looked into. False: errno.
  bool take() const;

private:
  int file, reason;
};

/// Runs a program and waits. Its standard output and error go to `output`, and its temporary files to the folder
/// `temporary` where that is not empty. Returns its exit status (128 + N when signal N ended it, which ends all that it
/// started), kNotStarted or kNoProcess. SIGINT, SIGTERM and SIGHUP end it with all that it started, and then this
/// process, whose temporary folders go; with Ctrl-Z it stands still, too.
int runProgram(const std::vector<std::string> &arguments, const CapturedOutput &output,
               const std::string &temporary = "");

} // namespace echelon
