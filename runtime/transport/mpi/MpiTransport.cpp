#include "runtime/transport/mpi/MpiTransport.h"
#include "runtime/launch/Printable.h"
#include "runtime/transport/Ticks.h"
#include "runtime/transport/WaitClock.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <numeric>
#include <optional>
#include <sched.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace echelon::runtime {

namespace {

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr int kQuestionTag = 1, kAnswerTag = 2;
constexpr size_t kPartBytes = size_t(1) << 30; // MPI counts are int

MPI_Datatype typeOf(ElementType type) {
  const MPI_Datatype types[] = {
#define ECHELON_ELEMENT(NAME, CPP, IR, LANGUAGE, SAFETENSORS, NPY, MPI) MPI,
#include "runtime/transport/Element.def"
#undef ECHELON_ELEMENT
  };
  return types[static_cast<size_t>(type)];
}

/// MPI's own maximum and minimum of reals drop a NaN that is on one side; these keep it.
template <typename T, bool largest> void keepNan(void *in, void *inOut, int *count, MPI_Datatype *) {
  const T *a = static_cast<const T *>(in);
  T *b = static_cast<T *>(inOut);
  for (int i = 0; i < *count; ++i)
    b[i] = (largest ? a[i] > b[i] : a[i] < b[i]) || a[i] != a[i] ? a[i] : b[i];
}

/// While it lives MPI starts, and waits for all ranks without a deadline of its own.
class StartWatch {
public:
  explicit StartWatch(double limitSeconds) : thread([this, limitSeconds] { watch(limitSeconds); }) {}
  ~StartWatch() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      hasStarted = true;
    }
    started.notify_one();
    thread.join();
  }

private:
  void watch(double limitSeconds) {
    std::unique_lock<std::mutex> lock(mutex);
    for (WaitClock clock; clock.seconds() < limitSeconds;)
      if (started.wait_for(lock, std::chrono::milliseconds(100), [this] { return hasStarted; }))
        return;
    std::fprintf(stderr,
                 "echelon: MPI did not start all ranks within %g s (six deadlines): one is stopped or dead, or a "
                 "machine is out of reach\n",
                 limitSeconds);
    std::_Exit(4); // mpirun and srun end the others
  }

  std::mutex mutex;
  std::condition_variable started;
  bool hasStarted = false;
  std::thread thread;
};

} // namespace

MpiTransport::MpiTransport(const MpiJoin &join) : join(join) {
  std::optional<StartWatch> watch(6 * join.deadlineSeconds);
  int provided;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &ownRank);
  MPI_Comm_size(MPI_COMM_WORLD, &worldSize);
  deadlineSeconds = join.deadlineSeconds;
  if (provided < MPI_THREAD_FUNNELED)
    die("this MPI cannot be called from a program with threads");
  if (worldSize != join.ranks) {
    if (ownRank == 0)
      std::fprintf(stderr,
                   "echelon: this program has %d ranks, but MPI started %d; start it with mpirun -n %d or srun -n %d\n",
                   join.ranks, worldSize, join.ranks, join.ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    std::_Exit(4);
  }
  machine = std::make_unique<MpiMachine>(ownRank, worldSize, deadlineSeconds);
  MPI_Comm_dup(MPI_COMM_WORLD, &messages);
  MPI_Comm_dup(MPI_COMM_WORLD, &questions);
  std::vector<int> all(worldSize);
  std::iota(all.begin(), all.end(), 0);
  watch.reset();
  worldGroup = makeGroup(all);
  MPI_Op_create(keepNan<float, true>, true, &realOps[0][0]);
  MPI_Op_create(keepNan<float, false>, true, &realOps[0][1]);
  MPI_Op_create(keepNan<double, true>, true, &realOps[1][0]);
  MPI_Op_create(keepNan<double, false>, true, &realOps[1][1]);
}

MPI_Op MpiTransport::opOf(const CollectiveCall &call) const {
  if (call.op == Sum)
    return MPI_SUM;
  const bool isMinimum = call.op == Min;
  if (call.type == ElementType::Float32 || call.type == ElementType::Float64)
    return realOps[call.type == ElementType::Float64][isMinimum];
  return isMinimum ? MPI_MIN : MPI_MAX;
}

void *MpiTransport::allocateBefore(size_t bytes, size_t tail) {
  void *block = ownMemory.allocate(bytes, tail);
  if (!block)
    die("cannot allocate " + std::to_string(bytes) + " bytes");
  return block;
}

Group MpiTransport::makeGroup(std::vector<int> ranks) {
  Group group;
  group.ranks = std::move(ranks);
  group.id = static_cast<int>(groups.size());
  auto own = std::find(group.ranks.begin(), group.ranks.end(), ownRank);
  if (own == group.ranks.end())
    die("rank " + std::to_string(ownRank) + " is not in the group that it makes");
  group.index = static_cast<int>(own - group.ranks.begin());
  setPlace(Activity::MakingGroups, "");
  if (!comesTogether(questions)) // all come here, and then none is late in the call that has no deadline
    timeOut();
  MPI_Comm communicator;
  MPI_Comm_split(messages, group.ranks[0], group.index, &communicator);
  groups.push_back(communicator);
  return group;
}

// ---- starting ----

MpiTransport::Operation &MpiTransport::take(Request &request) {
  if (freeRequests.empty()) {
    operations.emplace_back();
    request = operations.size();
  } else {
    request = freeRequests.back();
    freeRequests.pop_back();
  }
  Operation &operation = operations[request - 1];
  operation.parts.clear();
  operation.label.clear();
  return operation;
}

Request MpiTransport::transfer(bool isSend, int peer, char *data, size_t bytes, int tag, const char *label) {
  if (peer < 0 || peer >= worldSize)
    die("a message to or from rank " + std::to_string(peer) + ", which is not one of " + std::to_string(worldSize));
  Request request;
  Operation &operation = take(request);
  operation.doing = isSend ? Activity::Send : Activity::Receive;
  operation.label = label;
  size_t at = 0;
  do { // a message without bytes is a message too
    const int part = static_cast<int>(std::min(kPartBytes, bytes - at));
    operation.parts.emplace_back();
    if (isSend)
      MPI_Isend(data + at, part, MPI_BYTE, peer, tag, messages, &operation.parts.back());
    else
      MPI_Irecv(data + at, part, MPI_BYTE, peer, tag, messages, &operation.parts.back());
    at += part;
  } while (at < bytes);
  return request;
}

Request MpiTransport::isend(int to, const void *data, size_t bytes, int tag, const char *label) {
  return transfer(true, to, static_cast<char *>(const_cast<void *>(data)), bytes, tag, label);
}

Request MpiTransport::ireceive(int from, void *data, size_t bytes, int tag, const char *label) {
  return transfer(false, from, static_cast<char *>(data), bytes, tag, label);
}

void MpiTransport::checkCount(const Group &group, const CollectiveCall &call) const {
  if (call.count > INT_MAX / group.size())
    die(machine->own().place() + ": " + std::to_string(call.count) + " elements are more than one call of MPI takes");
}

/// A row of a gathered buffer, with the distance to the next row as its extent. Freed when the collective is done: not
/// every MPI keeps what a started one needs.
static MPI_Datatype rowType(const CollectiveCall &call, int places, MPI_Datatype element) {
  const int64_t run = call.count / call.runs;
  MPI_Datatype runs, row;
  MPI_Type_vector(static_cast<int>(call.runs), static_cast<int>(run), static_cast<int>(places * run), element, &runs);
  MPI_Type_create_resized(runs, 0, run * static_cast<int64_t>(bytesOf(call.type)), &row);
  MPI_Type_commit(&row);
  MPI_Type_free(&runs);
  return row;
}

/// The rows of a reduce_scatter, one after the other, in a copy where they do not lie so or would be overwritten:
/// MPI's own in-place form wants the result in the first row. Else empty.
static std::vector<char> rowsApart(const CollectiveCall &call, const Group &group) {
  const int64_t bytes = bytesOf(call.type);
  const char *in = static_cast<const char *>(call.in);
  std::vector<char> copy;
  if (call.runs == 1 && call.out != in + group.index * call.count * bytes)
    return copy;
  copy.reserve(group.size() * call.count * bytes);
  forEachPiece(call, group.size(), 0, call.count, [&](int64_t from, int64_t, int64_t count) {
    copy.insert(copy.end(), in + from * bytes, in + (from + count) * bytes);
  });
  return copy;
}

Request MpiTransport::startCollective(const Group &group, const CollectiveCall &call) {
  setPlace(doing(call.kind), call.label);
  checkCount(group, call);
  Request request;
  Operation &operation = take(request);
  operation.doing = doing(call.kind);
  operation.label = call.label;
  operation.parts.emplace_back();
  MPI_Request *part = &operation.parts.back();
  const MPI_Comm communicator = groups[group.id];
  const MPI_Datatype type = typeOf(call.type);
  const MPI_Op op = opOf(call);
  const int count = static_cast<int>(call.count), root = call.root;
  const bool isRoot = group.index == root;
  const int64_t ownRow = int64_t(group.index) * count * bytesOf(call.type);
  const void *in = call.in;
  void *out = call.out;
  const bool inIsOwnRow = in == static_cast<const char *>(out) + ownRow,
             outIsOwnRow = out == static_cast<const char *>(in) + ownRow;

  switch (call.kind) {
  case Collective::Barrier:
    MPI_Ibarrier(communicator, part);
    break;
  case Collective::Broadcast:
    MPI_Ibcast(out, count, type, root, communicator, part);
    break;
  case Collective::Scatter:
    MPI_Iscatter(in, count, type, isRoot && outIsOwnRow ? MPI_IN_PLACE : out, count, type, root, communicator, part);
    break;
  case Collective::Gather:
    MPI_Igather(isRoot && inIsOwnRow ? MPI_IN_PLACE : in, count, type, out, count, type, root, communicator, part);
    break;
  case Collective::AllGather:
    if (call.runs > 1) {
      operation.row = rowType(call, group.size(), type);
      MPI_Iallgather(in, count, type, out, 1, operation.row, communicator, part);
      break;
    }
    MPI_Iallgather(inIsOwnRow ? MPI_IN_PLACE : in, count, type, out, count, type, communicator, part);
    break;
  case Collective::Reduce:
    if (isRoot)
      MPI_Ireduce(in == out ? MPI_IN_PLACE : in, out, count, type, op, root, communicator, part);
    else
      MPI_Ireduce(in, nullptr, count, type, op, root, communicator, part);
    break;
  case Collective::AllReduce:
    MPI_Iallreduce(in == out ? MPI_IN_PLACE : in, out, count, type, op, communicator, part);
    break;
  case Collective::ReduceScatter:
    operation.copy = rowsApart(call, group);
    MPI_Ireduce_scatter_block(operation.copy.empty() ? in : operation.copy.data(), out, count, type, op, communicator,
                              part);
    break;
  case Collective::AllToAll:
    MPI_Ialltoall(in, count, type, out, count, type, communicator, part);
    break;
  }
  return request;
}

void MpiTransport::runCollective(const Group &group, const CollectiveCall &call) {
  if (call.kind != Collective::AllReduce && call.kind != Collective::Reduce && call.kind != Collective::ReduceScatter)
    return wait(startCollective(group, call));
  setPlace(doing(call.kind), call.label);
  checkCount(group, call);
  if (!comesTogether(groups[group.id]))
    timeOut();
  const MPI_Comm communicator = groups[group.id];
  const MPI_Datatype type = typeOf(call.type);
  const MPI_Op op = opOf(call);
  const int count = static_cast<int>(call.count);
  const MpiMachine::Waiting waiting(*machine, true);
  if (call.kind == Collective::AllReduce) {
    MPI_Allreduce(call.in == call.out ? MPI_IN_PLACE : call.in, call.out, count, type, op, communicator);
  } else if (call.kind == Collective::Reduce) {
    const bool isRoot = group.index == call.root;
    MPI_Reduce(isRoot && call.in == call.out ? MPI_IN_PLACE : call.in, isRoot ? call.out : nullptr, count, type, op,
               call.root, communicator);
  } else {
    const std::vector<char> copy = rowsApart(call, group);
    MPI_Reduce_scatter_block(copy.empty() ? call.in : copy.data(), call.out, count, type, op, communicator);
  }
}

// ---- waiting ----

bool MpiTransport::isComplete(Operation &operation) {
  int done;
  MPI_Testall(static_cast<int>(operation.parts.size()), operation.parts.data(), &done, MPI_STATUSES_IGNORE);
  return done;
}

void MpiTransport::giveBack(Request request) {
  Operation &operation = operations[request - 1];
  std::vector<char>().swap(operation.copy);
  if (operation.row != MPI_DATATYPE_NULL)
    MPI_Type_free(&operation.row); // and sets it to null
  freeRequests.push_back(request);
}

bool MpiTransport::test(Request request) {
  if (!request)
    return true;
  if (!isComplete(operations[request - 1]))
    return false;
  giveBack(request);
  return true;
}

void MpiTransport::wait(Request request) {
  if (!request)
    return;
  waitFor(operations[request - 1]);
  giveBack(request);
}

void MpiTransport::waitFor(Operation &operation) {
  advanceBackground();
  for (int spins = 0; spins < 100; ++spins)
    if (isComplete(operation))
      return;
  if (!operation.label.empty())
    setPlace(operation.doing, operation.label.c_str());
  const MpiMachine::Waiting waiting(*machine, false);
  WaitClock clock;
  const uint64_t beginTicks = ticks();
  while (!isComplete(operation)) {
    advanceBackground();
    const double seconds = clock.seconds();
    if (seconds > deadlineSeconds)
      timeOut();
    if (seconds > 50e-3) {
      answerQuestions();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else {
      sched_yield();
    }
  }
  waited += ticks() - beginTicks;
}

void MpiTransport::progress() {
  int flag;
  MPI_Iprobe(MPI_ANY_SOURCE, kQuestionTag, questions, &flag, MPI_STATUS_IGNORE); // any call lets MPI go on
  advanceBackground();
}

bool MpiTransport::leave() {
  if (!comesTogether(questions))
    return false;
  machine->leave();
  return true;
}

// Whether all ranks of the communicator come here within the deadline.
bool MpiTransport::comesTogether(MPI_Comm communicator) {
  const uint64_t beginTicks = ticks();
  MPI_Request barrier;
  MPI_Ibarrier(communicator, &barrier);
  advanceBackground();
  for (int spins = 0, done = 0; spins < 100; ++spins) {
    MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
    if (done) {
      waited += ticks() - beginTicks;
      return true;
    }
  }
  const MpiMachine::Waiting waiting(*machine, false);
  WaitClock clock;
  for (int done = 0; !done;) {
    MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
    const double seconds = clock.seconds();
    if (!done && seconds > deadlineSeconds)
      return false;
    advanceBackground();
    if (!done && seconds > 50e-3) {
      answerQuestions();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else if (!done) {
      sched_yield();
    }
  }
  waited += ticks() - beginTicks;
  return true;
}

// ---- who does not come ----

// Ranks that wait say where they are; a rank that computes, or is gone, does not.
void MpiTransport::answerQuestions() {
  for (;;) {
    int flag;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kQuestionTag, questions, &flag, &status);
    if (!flag)
      return;
    char nothing;
    MPI_Recv(&nothing, 1, MPI_BYTE, status.MPI_SOURCE, kQuestionTag, questions, MPI_STATUS_IGNORE);
    Answer own;
    std::snprintf(own.place, sizeof own.place, "%s", machine->own().describe().c_str());
    MPI_Request answer; // small, so buffered: it needs no wait, and `own` is sent as it is now
    MPI_Isend(&own, sizeof own, MPI_BYTE, status.MPI_SOURCE, kAnswerTag, questions, &answer);
    MPI_Request_free(&answer);
  }
}

void MpiTransport::timeOut() {
  std::vector<Answer> answers(worldSize);
  std::vector<MPI_Request> receives(worldSize, MPI_REQUEST_NULL);
  std::vector<bool> hasAnswered(worldSize, false);
  hasAnswered[ownRank] = true;
  char nothing = 0;
  for (int rank = 0; rank < worldSize; ++rank)
    if (rank != ownRank) {
      MPI_Request question;
      MPI_Irecv(&answers[rank], sizeof(Answer), MPI_BYTE, rank, kAnswerTag, questions, &receives[rank]);
      MPI_Isend(&nothing, 1, MPI_BYTE, rank, kQuestionTag, questions, &question);
      MPI_Request_free(&question);
    }
  for (const auto begin = Clock::now(); secondsSince(begin) < 1;) {
    answerQuestions();
    for (int rank = 0; rank < worldSize; ++rank)
      if (!hasAnswered[rank]) {
        int flag;
        MPI_Test(&receives[rank], &flag, MPI_STATUS_IGNORE);
        hasAnswered[rank] = flag;
      }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  // Those that wait reach their deadlines together; the first of them speaks for all.
  const int speaker = static_cast<int>(std::find(hasAnswered.begin(), hasAnswered.end(), true) - hasAnswered.begin());
  if (speaker != ownRank) {
    for (const auto begin = Clock::now(); secondsSince(begin) < 2;) {
      answerQuestions();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::string late, places;
  for (int rank = 0; rank < worldSize; ++rank) {
    if (!hasAnswered[rank])
      late += (late.empty() ? "rank " : " and rank ") + std::to_string(rank);
    else if (rank != ownRank)
      places += "; rank " + std::to_string(rank) + " " + answers[rank].place;
  }
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", deadlineSeconds);
  const std::string here = machine->own().placeAndStep();
  if (late.empty())
    die("ranks wait for each other: this one in " + here + places + " (waited " + seconds + " s)");
  const std::string gone = machine->whoIsGone();
  die(late + " did not come to " + here + " within " + seconds + " s" + (gone.empty() ? "" : "; " + gone));
}

void MpiTransport::die(const std::string &message) const {
  join.fail(message.c_str());
  std::abort(); // not reached: fail does not return
}

void MpiTransport::stop(const char *message) {
  std::fflush(stdout);
  if (machine)
    machine->tell(message);
  else
    std::fprintf(stderr, "echelon: rank %d: %s\n", ownRank, printable(message, Lines::Indented).c_str());
  std::fflush(stderr);
  while (saving.load() == SnapshotPhase::Writes)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  MPI_Abort(MPI_COMM_WORLD, 4);
  std::_Exit(4);
}

extern "C" __attribute__((visibility("default"))) Transport *echelonMpiJoin(const MpiJoin &join) {
  return new MpiTransport(join);
}

extern "C" __attribute__((visibility("default"))) bool echelonMpiLeave(Transport *transport) {
  MpiTransport *own = static_cast<MpiTransport *>(transport);
  const bool allCame = own->leave();
  if (allCame)
    MPI_Finalize();
  delete own;
  return allCame;
}

} // namespace echelon::runtime
