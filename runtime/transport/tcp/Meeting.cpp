#include "runtime/transport/tcp/Meeting.h"
#include "runtime/launch/Fail.h"
#include "runtime/launch/MachineNumber.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>

namespace echelon::runtime::tcp {

namespace {

constexpr char kMagic[8] = {'e', 'c', 'h', 'e', 'l', 'o', 'n', '\n'};
constexpr uint32_t kVersion = 1; // of all that follows, and of the messages of Watch.cpp and PeerMessages.cpp
constexpr uint32_t kByteOrder = 0x01020304;
using Secret = std::array<uint8_t, 16>;

/// What every connection begins with.
struct Words {
  char magic[8];
  uint32_t version, byteOrder;

  Words() : version(kVersion), byteOrder(kByteOrder) { std::memcpy(magic, kMagic, sizeof magic); }
};

struct Hello {
  Words words;
  int32_t rank, size;
  uint64_t job, program, machine;
  uint32_t port, localRank;
};

struct Answer {
  Words words;
  uint32_t isRefused, bytes; // then so many bytes: a text, or the table
};

struct TableHead {
  Secret secret;
};
struct Entry {
  std::array<uint8_t, 16> address;
  uint64_t machine;
  uint32_t port, isBesideRankZero; // its address is then of use on that machine alone
};

struct Introduction {
  Words words;
  int32_t from, to;
  Secret secret;
};

/// The same number on all machines.
uint64_t numberOf(const std::string &text) {
  uint64_t number = 0xCBF29CE484222325u; // FNV-1a
  for (const unsigned char byte : text)
    number = (number ^ byte) * 0x100000001B3u;
  return number;
}

template <class T> T read(const std::vector<char> &bytes) {
  T value;
  std::memcpy(static_cast<void *>(&value), bytes.data(), sizeof value);
  return value;
}

bool isOurs(const Words &words) { return std::memcmp(words.magic, kMagic, sizeof kMagic) == 0; }

std::string named(const std::vector<int> &ranks) {
  std::string text;
  constexpr size_t kMost = 8;
  for (size_t i = 0; i < std::min(ranks.size(), kMost); ++i)
    text += (i == 0 ? "rank " : i + 1 == ranks.size() ? " and rank " : ", rank ") + std::to_string(ranks[i]);
  return ranks.size() > kMost ? text + " and " + std::to_string(ranks.size() - kMost) + " more" : text;
}

class Bringing {
public:
  Bringing(const Member &member, const std::string &program, double seconds, const std::atomic<int> &stop)
      : member(member), stop(stop), seconds(seconds),
        allowed(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
        end(Clock::now() + allowed), place(member.host + ":" + std::to_string(member.port)) {
    own.rank = member.rank;
    own.size = member.size;
    own.job = numberOf(member.job);
    own.program = numberOf(program);
    own.machine = machineNumber();
    own.localRank = uint32_t(member.localRank);
    met.machines.assign(size_t(member.size), own.machine);
    met.peers.resize(size_t(member.size));
    met.watched.resize(member.rank == 0 ? size_t(member.size) : 1);
  }

  Met run() {
    openListener();
    if (member.rank == 0)
      takeAll();
    else
      comeToRankZero();
    connectToEarlier();
    takeLater();
    awaitAll();
    for (int rank = 0; rank < member.size && met.interface.empty(); ++rank)
      if (met.machines[size_t(rank)] != own.machine)
        met.interface = interfaceOf(met.peers[size_t(rank)].own());
    return std::move(met);
  }

private:
  [[noreturn]] void give(const std::string &message) const {
    fail("rank " + std::to_string(member.rank) + ": " + message);
  }
  std::string within() const {
    char text[48];
    std::snprintf(text, sizeof text, " within %g s (six deadlines)", seconds);
    return text;
  }
  /// The end of a wait that looks now and then whether the user stopped the run.
  Clock::time_point soon() const {
    if (stop.load())
      give("stopped before all ranks had come together");
    return std::min(end, Clock::now() + std::chrono::milliseconds(200));
  }

  void openListener() {
    std::string error;
    bool isTaken = false;
    listener = listenFor(member.host, 0, error, isTaken);
    if (!listener.isOpen())
      give("cannot listen for other ranks: " + error);
    own.port = listener.own().port;
    if (member.rank != 0)
      return;
    store = member.listener >= 0 ? Socket(member.listener) : listenFor(member.host, member.port, error, isTaken);
    if (isTaken)
      give("cannot listen at " + place + ": the port is taken on this machine; choose another by " + member.atFault);
    if (!store.isOpen())
      give("cannot listen at " + place + ": " + error);
  }

  // ---- rank 0 ----

  void takeAll() {
    std::vector<Hello> hellos(size_t(member.size), own);
    Reception reception(store, sizeof(Hello));
    int missing = member.size - 1, refused = 0;
    std::string lastRefusal;
    while (missing > 0) {
      std::optional<Reception::Visitor> come = reception.next(soon());
      if (!come && Clock::now() >= end)
        refuseAll(reception.sentAway(), refused, lastRefusal);
      if (!come)
        continue;
      const auto hello = read<Hello>(come->hello);
      if (isOurs(hello.words) && hello.rank > 0 && hello.rank < own.size && hasGone(hello.rank))
        ++missing; // and comes again
      const std::string from = come->socket.peer().host(), why = whyNot(hello);
      if (!why.empty()) {
        refuse(come->socket, why);
        ++refused;
        lastRefusal = from + ": " + why;
        continue;
      }
      hellos[size_t(hello.rank)] = hello;
      met.machines[size_t(hello.rank)] = hello.machine;
      met.watched[size_t(hello.rank)] = std::move(come->socket);
      --missing;
    }
    handOutTable(hellos);
  }

  bool hasGone(int rank) {
    Socket &before = met.watched[size_t(rank)];
    if (!before.isOpen() || !before.isOver())
      return false;
    before.close();
    return true;
  }

  /// Why somebody is not let in; empty: it is a rank of this run that was missing.
  std::string whyNot(const Hello &hello) const {
    if (!isOurs(hello.words))
      return "it is no program of Echelon";
    if (hello.words.version != own.words.version || hello.words.byteOrder != own.words.byteOrder)
      return "its program was built by another version of Echelon";
    if (hello.job != own.job)
      return "it is of another job than the run that meets at " + place;
    if (hello.program != own.program)
      return "its program is another than that of rank 0";
    if (hello.size != own.size)
      return "it is one of " + std::to_string(hello.size) + " ranks, and rank 0 of " + std::to_string(own.size);
    if (hello.rank < 1 || hello.rank >= own.size)
      return "there is no rank " + std::to_string(hello.rank) + " to wait for";
    if (met.watched[size_t(hello.rank)].isOpen())
      return "rank " + std::to_string(hello.rank) + " has come already, from " +
             met.watched[size_t(hello.rank)].peer().host() + "; two processes say that they are it";
    return "";
  }

  static void refuse(const Socket &socket, const std::string &why) {
    Answer answer = {{}, 1, uint32_t(why.size())};
    const auto soon = Clock::now() + std::chrono::milliseconds(200);
    if (sendAll(socket, &answer, sizeof answer, soon))
      sendAll(socket, why.data(), why.size(), soon);
  }

  [[noreturn]] void refuseAll(int sentAway, int refused, const std::string &lastRefusal) const {
    std::vector<int> missing;
    for (int rank = 1; rank < member.size; ++rank)
      if (!met.watched[size_t(rank)].isOpen())
        missing.push_back(rank);
    for (const Socket &socket : met.watched)
      if (socket.isOpen())
        refuse(socket, ""); // this rank says why, and once is enough
    std::string message = named(missing) + " did not come to " + place + within();
    if (refused > 0)
      message += "; " + std::to_string(refused) + " sent away, the last one from " + lastRefusal;
    else if (sentAway > 0)
      message += "; " + std::to_string(sentAway) + " came that did not say who they are";
    give(message);
  }

  void handOutTable(const std::vector<Hello> &hellos) {
    std::random_device random;
    for (uint8_t &byte : secret)
      byte = uint8_t(random());
    table.resize(size_t(member.size));
    for (size_t rank = 0; rank < table.size(); ++rank) {
      const Address from = rank == 0 ? Address() : met.watched[rank].peer();
      table[rank] = {from.bytes, hellos[rank].machine, hellos[rank].port, rank == 0 || from.isLoopback()};
    }
    std::vector<char> bytes(sizeof(TableHead) + table.size() * sizeof(Entry));
    std::memcpy(bytes.data(), &secret, sizeof secret);
    std::memcpy(bytes.data() + sizeof(TableHead), table.data(), table.size() * sizeof(Entry));
    const Answer answer = {{}, 0, uint32_t(bytes.size())};
    for (size_t rank = 1; rank < table.size(); ++rank)
      if (!sendAll(met.watched[rank], &answer, sizeof answer, end) ||
          !sendAll(met.watched[rank], bytes.data(), bytes.size(), end))
        give("rank " + std::to_string(rank) + " came to " + place + " and is gone");
  }

  // ---- the others ----

  [[noreturn]] void giveUpOnRankZero(const std::string &message) const {
    give(isCutOff
             ? "what listened at " + place + " cut the connection off: it is not rank 0 of this run, or rank 0 is gone"
             : message);
  }

  /// Rank 0 may be started later, and its host may have several addresses of which one is the right one.
  void comeToRankZero() {
    std::string error = "nobody has answered";
    for (;;) {
      for (const Address &address : resolve(member.host, member.port, error)) {
        Socket socket = connectTo(address, std::min(end, Clock::now() + std::chrono::seconds(5)), error);
        if (!socket.isOpen())
          continue;
        const auto endOfSearch =
            std::exchange(end, Clock::now() + allowed + std::chrono::seconds(2)); // rank 0 gives up first
        if (!sendAll(socket, &own, sizeof own, end) || !awaitAnswer(socket)) {
          isCutOff = true;
          end = endOfSearch;
          continue;
        }
        rankZero = socket.peer();
        met.watched[0] = std::move(socket);
        return;
      }
      if (Clock::now() >= end)
        giveUpOnRankZero("rank 0 does not listen at " + place + within() + ": " + error +
                         "; where it does is said by " + member.atFault);
      soon();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  /// False where the connection closes before anything comes: whoever listens there is not rank 0, or not yet.
  bool awaitAnswer(const Socket &socket) {
    while (!socket.awaitBytes(soon())) // rank 0 answers when all have come
      if (Clock::now() >= end)
        giveUpOnRankZero("rank 0 at " + place + " did not say that all have come" + within());
    Answer answer;
    if (!receiveAll(socket, &answer, sizeof answer, end))
      return false;
    const size_t entries = size_t(member.size) * sizeof(Entry);
    constexpr uint32_t kLongestText = 1000;
    if (!isOurs(answer.words) ||
        (answer.isRefused ? answer.bytes > kLongestText : answer.bytes != sizeof(TableHead) + entries))
      return false;
    std::vector<char> bytes(answer.bytes);
    if (!receiveAll(socket, bytes.data(), bytes.size(), end))
      return false;
    if (answer.isRefused && answer.bytes == 0)
      std::_Exit(4); // rank 0 has said why
    if (answer.isRefused)
      give("rank 0 sent it away: " + std::string(bytes.begin(), bytes.end()));
    std::memcpy(&secret, bytes.data(), sizeof secret);
    table.resize(size_t(member.size));
    std::memcpy(table.data(), bytes.data() + sizeof(TableHead), entries);
    for (size_t rank = 0; rank < table.size(); ++rank)
      met.machines[rank] = table[rank].machine;
    return true;
  }

  // ---- each to each ----

  void connectToEarlier() {
    for (int rank = 0; rank < member.rank; ++rank) {
      const Entry &entry = table[size_t(rank)];
      // Ranks beside rank 0 may have come to it over the loopback: others reach them where they reach rank 0.
      Address address = {entry.isBesideRankZero ? rankZero.bytes : entry.address, uint16_t(entry.port)};
      std::string error = "nobody answers";
      Socket socket;
      while (!socket.isOpen()) {
        socket = connectTo(address, soon(), error);
        if (!socket.isOpen() && Clock::now() >= end)
          give("cannot reach rank " + std::to_string(rank) + " at " + address.host() + ":" +
               std::to_string(address.port) + within() + ": " + error);
      }
      Introduction introduction = {{}, member.rank, rank, secret};
      if (!sendAll(socket, &introduction, sizeof introduction, end))
        give("rank " + std::to_string(rank) + " is gone: it closed the connection");
      met.peers[size_t(rank)] = std::move(socket);
    }
  }

  void takeLater() {
    Reception reception(listener, sizeof(Introduction));
    for (int missing = member.size - 1 - member.rank; missing > 0;) {
      std::optional<Reception::Visitor> come = reception.next(soon());
      if (!come && Clock::now() >= end) {
        std::vector<int> absent;
        for (int rank = member.rank + 1; rank < member.size; ++rank)
          if (!met.peers[size_t(rank)].isOpen())
            absent.push_back(rank);
        give(named(absent) + " did not connect to this rank" + within());
      }
      if (!come)
        continue;
      const auto said = read<Introduction>(come->hello);
      const bool isRank = isOurs(said.words) && said.secret == secret && said.to == member.rank &&
                          said.from > member.rank && said.from < member.size && !met.peers[size_t(said.from)].isOpen();
      if (!isRank)
        continue; // a stranger: its connection closes
      met.peers[size_t(said.from)] = std::move(come->socket);
      --missing;
    }
  }

  /// Nobody begins, and nobody is late, before each has reached each. Who has not says why itself.
  void awaitAll() {
    const char isReady = 1;
    if (member.rank != 0) {
      char mayBegin = 0;
      if (!sendAll(met.watched[0], &isReady, 1, end))
        give("rank 0 is gone: it closed the connection");
      while (!met.watched[0].awaitBytes(soon()))
        if (Clock::now() >= end)
          give("rank 0 did not say that all are connected" + within());
      if (!receiveAll(met.watched[0], &mayBegin, 1, end) || !mayBegin)
        std::_Exit(4); // rank 0, or the one that it waits for, has said why
      return;
    }
    std::vector<int> missing;
    for (int rank = 1; rank < member.size; ++rank) {
      char is = 0;
      while (!met.watched[size_t(rank)].awaitBytes(soon()) && Clock::now() < end)
        ;
      if (!receiveAll(met.watched[size_t(rank)], &is, 1, Clock::now()))
        missing.push_back(rank);
    }
    const char mayBegin = missing.empty();
    for (int rank = 1; rank < member.size; ++rank)
      sendAll(met.watched[size_t(rank)], &mayBegin, 1, Clock::now() + std::chrono::seconds(1));
    if (!missing.empty())
      give(named(missing) + " came to " + place + " and did not reach all other ranks");
  }

  const Member &member;
  const std::atomic<int> &stop;
  double seconds;
  Clock::duration allowed; // the same
  Clock::time_point end;
  std::string place;
  Hello own{};
  bool isCutOff = false; // somebody has closed a connection to the place, and said nothing
  Socket listener, store;
  Address rankZero; // as this rank reaches it
  Secret secret{};
  std::vector<Entry> table;
  Met met;
};

} // namespace

Met meet(const Member &member, const std::string &program, double seconds, const std::atomic<int> &stop) {
  return Bringing(member, program, seconds, stop).run();
}

} // namespace echelon::runtime::tcp
