// TCP connections between the ranks of several machines: how they are made, with an end to each wait.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace echelon::runtime::tcp {

using Clock = std::chrono::steady_clock;

/// Where somebody listens. IPv4 in the form that IPv6 has for it, ::ffff:a.b.c.d.
struct Address {
  std::array<uint8_t, 16> bytes{};
  uint16_t port = 0;

  /// Of this machine alone: 127.0.0.0/8 or ::1.
  bool isLoopback() const;
  /// "10.0.0.2", "fe80::1".
  std::string host() const;
  bool operator==(const Address &other) const { return bytes == other.bytes && port == other.port; }
};

/// Owns a descriptor.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : number(descriptor) {}
  Socket(Socket &&other) noexcept : number(std::exchange(other.number, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Socket() { close(); }

  bool isOpen() const { return number >= 0; }
  int descriptor() const { return number; }
  void close();
  /// Whether the other end is closed, or the connection broken, with nothing left to read.
  bool isOver() const;
  /// Waits until there is something to read, or the connection is over; false where time is over before.
  bool awaitBytes(Clock::time_point end) const;
  /// Both need a connection: this machine's end of it, and the other's.
  Address own() const;
  Address peer() const;

private:
  int number = -1;
};

/// All addresses of a host; none, and `error` says why.
std::vector<Address> resolve(const std::string &host, int port, std::string &error);

/// Listens at a port, 0 for any that is free: on the loopback where `host` says so ("localhost", "127.0.0.1", "::1"),
/// else on all addresses. A machine's own name does not, though on that machine it may be one of the loopback. Not
/// open, and `error` says why, where it cannot: `isTaken` where somebody else listens there.
Socket listenFor(const std::string &host, int port, std::string &error, bool &isTaken);

/// Not open, and `error` says why, where nobody answers until `end`.
Socket connectTo(const Address &address, Clock::time_point end, std::string &error);

/// All of it, on a connection that does not block; false where it closes or fails, or time is over.
bool sendAll(const Socket &socket, const void *data, size_t bytes, Clock::time_point end);
bool receiveAll(const Socket &socket, void *data, size_t bytes, Clock::time_point end);

/// Name of the network interface that has an address, "eth0"; empty: none has.
std::string interfaceOf(const Address &address);

/// Takes connections from those that first send a fixed number of bytes. They are read side by side and each has a few
/// seconds, so that one who sends nothing holds up nobody.
class Reception {
public:
  Reception(const Socket &listener, size_t helloBytes) : listener(listener), helloBytes(helloBytes) {}

  struct Visitor {
    Socket socket;
    std::vector<char> hello;
  };
  /// The next that has sent all its bytes; nothing where none has until `end`.
  std::optional<Visitor> next(Clock::time_point end);
  /// How many went away, or were sent away, before that.
  int sentAway() const { return gone; }

private:
  struct Waiting {
    Visitor visitor;
    size_t got = 0;
    Clock::time_point since;
  };
  void takeAll();

  const Socket &listener;
  size_t helloBytes;
  std::vector<Waiting> waiting;
  int gone = 0;
};

} // namespace echelon::runtime::tcp
