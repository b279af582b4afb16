// What ranks do in a step, as the program has it: the calls of each stage of a pipeline, in order, loops not unrolled.
#pragma once
#include "planner/machine/Work.h"
#include "planner/timeline/Record.h"
#include <map>
#include <memory>

namespace echelon::planner {

struct Action;
using Actions = std::vector<Action>;

/// The turns of a stage of a pipeline: which of its bodies it does, in order.
struct Turns {
  std::vector<Actions> bodies; ///< of each pass through each chunk of its iterations
  std::vector<size_t> order;   ///< places among the bodies
  size_t chunks = 1;           ///< of a stage: bodies of the first pass, then as many of the second
};

struct Action {
  enum class Kind {
    Work,    ///< a kernel is called
    Message, ///< with a ticket it is started only
    Send,    ///< to another stage, within turns
    Receive, ///< from another stage, within turns
    Wait,    ///< for what is kept under a ticket: all of it, or the oldest
    Loop,
    Next,  ///< in a loop: what is ahead of an iteration is done for the next one, if there is one
    Turns, ///< all stages do theirs at this place
  };
  Kind kind = Kind::Work;
  size_t what = 0;       ///< place among the step's works or messages
  size_t term = 0;       ///< what its time is counted under: place among the step's terms
  size_t call = kNoCall; ///< the operation of the program that it is of
  int64_t calls = 1;     ///< of the host
  int64_t ticket = -1;   ///< -1: none
  bool all = true;       ///< of a wait
  bool joins = false;    ///< of a message: ranks of all stages take part
  int64_t peer = -1;     ///< of a send or receive: the other stage
  int64_t trips = 1;     ///< of a loop
  Actions body, ahead;   ///< of a loop
  std::shared_ptr<const Turns> turns;
};

/// A step, and what it asks of a machine; equal works, and equal messages, are there once.
struct Step {
  std::vector<Work> works;
  std::vector<Message> messages;
  std::vector<std::string> terms; ///< "product", "message over dp", …; kHost and kBubble are the first two
  std::vector<Actions> stages;    ///< one where there is no pipeline
};
inline constexpr size_t kHost = 0, kBubble = 1;

/// How often each work and message of a step is done, by place, and how many calls of the host that is.
struct Counts {
  std::vector<int64_t> works, messages;
  int64_t calls = 0;
};
enum class Within { All, OutsideTurns };
Counts countsOf(const Step &step, const Actions &actions, Within within = Within::All);

} // namespace echelon::planner
