#include "runtime/sync/LiveWorkers.h"

#include "runtime/collectives/Collectives.h"
#include "runtime/program/Clock.h"
#include "runtime/sync/Rules.h"
#include "runtime/sync/Workers.h"

#include <algorithm>
#include <deque>
#include <unistd.h>

namespace echelon::runtime {

namespace {

constexpr int kWordOfWorker = 11, kWordOfFirst = 12; // tags

/// Thrown where a rank leaves its work.
struct Abandoned {};

std::vector<int> teamOf(const Rank &rank) {
  const Program &program = rank.program();
  std::vector<int> sizes, inner;
  for (size_t m = 0; m < program.mesh.size(); ++m) {
    sizes.push_back(program.mesh[m].size);
    if (std::find(program.sync.meshAxes.begin(), program.sync.meshAxes.end(), int(m)) == program.sync.meshAxes.end())
      inner.push_back(int(m));
  }
  return ranksOver(sizes, inner, rank.rank());
}

} // namespace

std::vector<int64_t> LiveWorkers::Command::words(const SyncPolicy &policy) const {
  std::vector<int64_t> all = {kind, ticket, read, serial};
  for (const HandedIn &g : made.gradients)
    all.insert(all.end(), {g.worker, g.ticket, g.read});
  all.resize(length(policy));
  return all;
}

void LiveWorkers::Command::take(const std::vector<int64_t> &all, const SyncPolicy &policy) {
  kind = Kind(all[0]);
  ticket = all[1];
  read = all[2];
  serial = all[3];
  made = {};
  for (size_t i = 4; kind == Apply && i < length(policy); i += 3)
    made.gradients.push_back({all[i], all[i + 1], all[i + 2]});
}

/// Messages that nobody waits for.
class LiveWorkers::Mail {
public:
  explicit Mail(Transport &t) : transport(t) {}
  ~Mail() {
    for (Sent &one : sent)
      transport.wait(one.request);
  }
  void send(int to, std::vector<int64_t> words, int tag) {
    while (!sent.empty() && transport.test(sent.front().request))
      sent.pop_front();
    sent.push_back({0, std::move(words)});
    Sent &one = sent.back();
    one.request = transport.isend(to, one.words.data(), one.words.size() * sizeof(int64_t), tag, "word of an update");
  }

private:
  struct Sent {
    Request request;
    std::vector<int64_t> words;
  };
  Transport &transport;
  std::deque<Sent> sent; // a deque leaves its elements where they are
};

/// Rank 0's part: what each worker is at, and what becomes of it.
class LiveWorkers::Coordinator : Rules {
public:
  Coordinator(Transport &t, Mail &m, const SyncPolicy &p, const std::vector<int> &firstRanks, const Tickets &from)
      : Rules(p, from), transport(t), mail(m), firsts(firstRanks), serials(firsts.size()), heard(firsts.size()),
        requests(firsts.size()), began(secondsNow() - from.time) {
    for (size_t w = 1; w < firsts.size(); ++w)
      listen(w);
  }
  ~Coordinator() override { // each says a last word
    for (size_t w = 1; w < firsts.size(); ++w)
      while (heard[w] != -1 || requests[w]) {
        transport.wait(requests[w]);
        requests[w] = 0;
        if (heard[w] != -1)
          listen(w);
      }
  }

  void begin(int64_t v) {
    version = v;
    made = {};
    isApplying = false;
    startAll(version);
  }
  void meet() { abandonAll(); }
  Tickets tickets() const {
    Tickets at = stream;
    at.time = secondsNow() - began;
    return at;
  }
  void end() {
    for (size_t w = 1; w < firsts.size(); ++w)
      mail.send(firsts[w], Command{Command::End, 0, 0, 0, {}}.words(policy), kWordOfFirst);
  }

  /// A worker's mini-batch is done, unless that is no longer wanted.
  void arrived(int64_t worker, int64_t serial) {
    Worker &w = workers[size_t(worker)];
    if (serial != serials[size_t(worker)] || w.state != Worker::Computes)
      return;
    w.state = Worker::Waits;
    w.done = secondsNow() - began;
  }
  /// Hears the workers; the next word for rank 0's own.
  bool next(Command &own) {
    for (size_t w = 1; w < firsts.size(); ++w)
      while (requests[w] && transport.test(requests[w])) {
        requests[w] = 0;
        if (heard[w] != -1) {
          arrived(int64_t(w), heard[w]);
          listen(w);
        }
      }
    if (!isApplying && settle(version, made)) {
      isApplying = true; // until rank 0 has done it, and knows whether all meet
      made.time = secondsNow() - began;
      Command command{Command::Apply, 0, 0, 0, made};
      for (size_t w = 1; w < firsts.size(); ++w)
        mail.send(firsts[w], command.words(policy), kWordOfFirst);
      mine.push_back(command);
    }
    if (mine.empty())
      return false;
    own = mine.front();
    mine.pop_front();
    return true;
  }

private:
  void started(Worker &w) override {
    const size_t index = size_t(indexOf(w));
    const Command command{Command::Start, w.ticket, w.read, ++serials[index], {}};
    if (index == 0)
      mine.push_back(command);
    else
      mail.send(firsts[index], command.words(policy), kWordOfFirst);
  }
  void listen(size_t worker) {
    requests[worker] =
        transport.ireceive(firsts[worker], &heard[worker], sizeof(int64_t), kWordOfWorker, "word of a worker");
  }

  Transport &transport;
  Mail &mail;
  const std::vector<int> firsts; // rank of each worker
  std::vector<int64_t> serials;  // of what each was told to start
  std::vector<int64_t> heard;
  std::vector<Request> requests;
  std::deque<Command> mine;
  const double began;
  Update made;
  int64_t version = 0;
  bool isApplying = false;
};

LiveWorkers::LiveWorkers(Rank &r, InputLoader &l, const DataStream &stream, const Tickets &from)
    : rank(r), loader(l), data(stream), policy(r.program().sync), worker(workerOf(r)),
      team(r.transport().makeGroup(teamOf(r))), isFirst(team.index == 0), mail(std::make_unique<Mail>(r.transport())) {
  if (rank.rank() == 0) {
    std::vector<int> firsts;
    for (int64_t w = 0; w < policy.workers; ++w) // workers are outermost
      firsts.push_back(int(w * (rank.size() / policy.workers)));
    coordinator = std::make_unique<Coordinator>(rank.transport(), *mail, policy, firsts, from);
  }
  rank.watchWith(this);
}

LiveWorkers::~LiveWorkers() {
  rank.watchWith(nullptr);
  if (coordinator)
    coordinator->end();
  else if (isFirst) {
    Command last;
    while (last.kind != Command::End)
      receive(last);
    mail->send(0, {-1}, kWordOfWorker);
  }
}

Tickets LiveWorkers::tickets() const { return coordinator ? coordinator->tickets() : Tickets(); }

/// On the first rank of a team: the next word of rank 0, if there is one.
bool LiveWorkers::receive(Command &command) {
  if (coordinator)
    return coordinator->next(command);
  Transport &transport = rank.transport();
  if (!request) {
    words.resize(Command::length(policy));
    request = transport.ireceive(0, words.data(), words.size() * sizeof(int64_t), kWordOfFirst, "word of rank 0");
  }
  if (!transport.test(request))
    return false;
  request = 0;
  command.take(words, policy);
  return true;
}

/// The same for all of a team.
bool LiveWorkers::poll(Command &command) {
  int32_t has = isFirst && receive(command);
  if (team.size() == 1)
    return has;
  broadcast(rank.transport(), team, &has, 1, 0, "word of an update");
  if (!has)
    return false;
  std::vector<int64_t> all = isFirst ? command.words(policy) : std::vector<int64_t>(Command::length(policy));
  broadcast(rank.transport(), team, reinterpret_cast<int32_t *>(all.data()), int64_t(2 * all.size()), 0,
            "word of an update");
  command.take(all, policy);
  return true;
}

void LiveWorkers::run(int64_t from, const Apply &toApply) {
  version = from;
  apply = &toApply;
  hasMet = isDone = false;
  handedIn = 0;
  if (coordinator)
    coordinator->begin(version);
  while (!hasMet) {
    Command command;
    if (!poll(command)) {
      rank.transport().progress();
      usleep(20); // a core may be shared by several ranks
    } else if (command.kind == Command::Start) {
      compute(command);
    } else {
      update(command);
    }
  }
  if (coordinator)
    coordinator->meet();
}

/// The gradient that is made joins what the worker hands in.
void LiveWorkers::handIn() {
  const int64_t stale = std::max<int64_t>(version - read, 1);
  weight = 1.0 / double(policy.k * (policy.damps ? stale : 1));
  rank.setHandIn(weight, handedIn == 0);
  if (rank.program().handIn)
    rank.program().handIn(rank);
  ++handedIn;
  isDone = false;
}

void LiveWorkers::compute(const Command &start) {
  if (isDone) // told to go on: it is in
    handIn();
  const Program &program = rank.program();
  ticket = start.ticket;
  read = start.read;
  serial = start.serial;
  if (program.readNewest)
    program.readNewest(rank);
  rank.beginTicket(ticket);
  loader.load(data, Reading::Training, ticket * program.miniBatch(), program.miniBatch());
  Command left;
  isComputing = true;
  try {
    program.step(rank, 0);
    isComputing = false;
    isDone = true;
  } catch (const Abandoned &) {
    isComputing = false;
    left = std::move(stopped);
    stopped = Command();
  }
  if (isDone && coordinator)
    coordinator->arrived(worker, serial);
  else if (isDone && isFirst)
    mail->send(0, {serial}, kWordOfWorker);
  if (left.kind == Command::Apply)
    update(left);
}

void LiveWorkers::look() {
  Command command;
  if (!isComputing || !poll(command))
    return;
  if (!policy.isAsync()) { // the work is lost
    stopped = std::move(command);
    throw Abandoned();
  }
  update(command);
  rank.beginTicket(ticket);
  if (hasMet)
    throw Abandoned();
}

void LiveWorkers::update(const Command &command) {
  const auto &gradients = command.made.gradients;
  const bool isIn = isDone && std::any_of(gradients.begin(), gradients.end(),
                                          [&](const HandedIn &g) { return g.worker == worker && g.ticket == ticket; });
  if (isIn)
    handIn();
  if (!policy.isAsync())
    isDone = false; // it came too late
  rank.setHandIn(handedIn ? weight : 0, false);
  rank.beginUpdate(version);
  hasMet = (*apply)(command.made);
  ++version;
  handedIn = 0;
  if (coordinator && !hasMet)
    coordinator->begin(version);
}

} // namespace echelon::runtime
