#include "runtime/transport/tcp/Socket.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace echelon::runtime::tcp {

namespace {

constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF}; // of IPv4 in IPv6

bool isMapped(const Address &address) { return std::equal(kMapped.begin(), kMapped.end(), address.bytes.begin()); }

Address addressFrom(const sockaddr *from) {
  Address address;
  if (from->sa_family == AF_INET) {
    const auto *four = reinterpret_cast<const sockaddr_in *>(from);
    std::copy(kMapped.begin(), kMapped.end(), address.bytes.begin());
    std::memcpy(address.bytes.data() + kMapped.size(), &four->sin_addr, 4);
    address.port = ntohs(four->sin_port);
  } else if (from->sa_family == AF_INET6) {
    const auto *six = reinterpret_cast<const sockaddr_in6 *>(from);
    std::memcpy(address.bytes.data(), &six->sin6_addr, 16);
    address.port = ntohs(six->sin6_port);
  }
  return address;
}

socklen_t fill(sockaddr_storage &storage, const Address &address) {
  storage = {};
  if (isMapped(address)) { // also where the system has no IPv6
    auto *four = reinterpret_cast<sockaddr_in *>(&storage);
    four->sin_family = AF_INET;
    four->sin_port = htons(address.port);
    std::memcpy(&four->sin_addr, address.bytes.data() + kMapped.size(), 4);
    return sizeof *four;
  }
  auto *six = reinterpret_cast<sockaddr_in6 *>(&storage);
  six->sin6_family = AF_INET6;
  six->sin6_port = htons(address.port);
  std::memcpy(&six->sin6_addr, address.bytes.data(), 16);
  return sizeof *six;
}

void setOption(const Socket &socket, int level, int option, int value) {
  setsockopt(socket.descriptor(), level, option, &value, sizeof value);
}

/// Until the descriptor is ready for `events`, or time is over.
bool await(int descriptor, short events, Clock::time_point end) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd one = {descriptor, events, 0};
    const int ready = poll(&one, 1, int(std::clamp<int64_t>(left + 1, 0, 1000)));
    if (ready > 0)
      return true;
    if ((ready < 0 && errno != EINTR) || Clock::now() >= end)
      return false;
  }
}

/// The address that binds to all of the machine's, or to its loopback.
Address everyAddress(bool six, bool loopback) {
  Address address;
  if (six)
    address.bytes[15] = loopback;
  else {
    std::copy(kMapped.begin(), kMapped.end(), address.bytes.begin());
    if (loopback)
      address.bytes[12] = 127, address.bytes[15] = 1;
  }
  return address;
}

} // namespace

bool Address::isLoopback() const {
  const auto zeros = std::count(bytes.begin(), bytes.begin() + 15, 0);
  return (isMapped(*this) && bytes[12] == 127) || (zeros == 15 && bytes[15] == 1);
}

std::string Address::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (isMapped(*this))
    inet_ntop(AF_INET, bytes.data() + kMapped.size(), text, sizeof text);
  else
    inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
  return text;
}

void Socket::close() {
  if (number >= 0)
    ::close(std::exchange(number, -1));
}

bool Socket::isOver() const {
  char byte;
  const ssize_t got = recv(number, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

bool Socket::awaitBytes(Clock::time_point end) const { return await(number, POLLIN, end); }

Address Socket::own() const {
  sockaddr_storage storage = {};
  socklen_t length = sizeof storage;
  getsockname(number, reinterpret_cast<sockaddr *>(&storage), &length);
  return addressFrom(reinterpret_cast<sockaddr *>(&storage));
}

Address Socket::peer() const {
  sockaddr_storage storage = {};
  socklen_t length = sizeof storage;
  getpeername(number, reinterpret_cast<sockaddr *>(&storage), &length);
  return addressFrom(reinterpret_cast<sockaddr *>(&storage));
}

std::vector<Address> resolve(const std::string &host, int port, std::string &error) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int code = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  std::vector<Address> addresses;
  if (code != 0) {
    error = gai_strerror(code);
    return addresses;
  }
  for (const addrinfo *each = found; each; each = each->ai_next)
    if (each->ai_family == AF_INET || each->ai_family == AF_INET6) {
      addresses.push_back(addressFrom(each->ai_addr));
      addresses.back().port = uint16_t(port);
    }
  freeaddrinfo(found);
  if (addresses.empty())
    error = "it has no address";
  return addresses;
}

Socket listenFor(const std::string &host, int port, std::string &error, bool &isTaken) {
  const bool isHere = host == "localhost" || host.rfind("127.", 0) == 0 || host == "::1";
  isTaken = false;
  // On all addresses one socket takes both kinds of them; the loopback has one of each, and a name is IPv4's.
  for (const bool six : {true, false}) {
    if (isHere && six != (host == "::1"))
      continue;
    Socket socket(::socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.isOpen()) {
      error = std::strerror(errno);
      continue;
    }
    setOption(socket, SOL_SOCKET, SO_REUSEADDR, 1); // a run that has just ended holds its port no longer
    if (six)
      setOption(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    Address at = everyAddress(six, isHere);
    at.port = uint16_t(port);
    sockaddr_storage storage;
    const socklen_t length = fill(storage, at);
    constexpr int kBacklog = 4096; // the system allows fewer
    if (bind(socket.descriptor(), reinterpret_cast<sockaddr *>(&storage), length) == 0 &&
        listen(socket.descriptor(), kBacklog) == 0)
      return socket;
    error = std::strerror(errno);
    isTaken = errno == EADDRINUSE;
    if (isTaken)
      break;
  }
  return Socket();
}

Socket connectTo(const Address &address, Clock::time_point end, std::string &error) {
  sockaddr_storage storage;
  const socklen_t length = fill(storage, address);
  Socket socket(::socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.isOpen()) {
    error = std::strerror(errno);
    return socket;
  }
  setOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  if (connect(socket.descriptor(), reinterpret_cast<sockaddr *>(&storage), length) == 0)
    return socket;
  if (errno != EINPROGRESS) {
    error = std::strerror(errno);
    return Socket();
  }
  if (!await(socket.descriptor(), POLLOUT, end)) {
    error = std::strerror(ETIMEDOUT);
    return Socket();
  }
  int failure = 0;
  socklen_t size = sizeof failure;
  getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure == 0 && socket.own() == socket.peer()) // who asks a port of its own machine again and again may get it
    failure = ECONNREFUSED;
  if (failure == 0)
    return socket;
  error = std::strerror(failure);
  return Socket();
}

bool sendAll(const Socket &socket, const void *data, size_t bytes, Clock::time_point end) {
  for (const char *at = static_cast<const char *>(data); bytes > 0;) {
    const ssize_t sent = send(socket.descriptor(), at, bytes, MSG_NOSIGNAL);
    if (sent > 0) {
      at += sent;
      bytes -= size_t(sent);
    } else if (errno != EAGAIN && errno != EINTR) {
      return false;
    } else if (!await(socket.descriptor(), POLLOUT, end)) {
      return false;
    }
  }
  return true;
}

bool receiveAll(const Socket &socket, void *data, size_t bytes, Clock::time_point end) {
  for (char *at = static_cast<char *>(data); bytes > 0;) {
    const ssize_t got = recv(socket.descriptor(), at, bytes, 0);
    if (got > 0) {
      at += got;
      bytes -= size_t(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    } else if (!await(socket.descriptor(), POLLIN, end)) {
      return false;
    }
  }
  return true;
}

std::string interfaceOf(const Address &address) {
  ifaddrs *all = nullptr;
  if (getifaddrs(&all) != 0)
    return "";
  std::string name;
  for (const ifaddrs *each = all; each && name.empty(); each = each->ifa_next)
    if (each->ifa_addr && (each->ifa_addr->sa_family == AF_INET || each->ifa_addr->sa_family == AF_INET6) &&
        addressFrom(each->ifa_addr).bytes == address.bytes)
      name = each->ifa_name;
  freeifaddrs(all);
  return name;
}

// ---- reception ----

void Reception::takeAll() {
  for (;;) {
    Socket socket(accept4(listener.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.isOpen())
      return;
    setOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    constexpr size_t kMost = 512;
    if (waiting.size() == kMost) { // ranks say at once who they are: whoever waits longest is none
      waiting.erase(waiting.begin());
      ++gone;
    }
    waiting.push_back({{std::move(socket), std::vector<char>(helloBytes)}, 0, Clock::now()});
  }
}

std::optional<Reception::Visitor> Reception::next(Clock::time_point end) {
  constexpr std::chrono::seconds kPatience(5);
  for (;;) {
    takeAll();
    const auto now = Clock::now();
    for (size_t i = 0; i < waiting.size();) {
      Waiting &each = waiting[i];
      const ssize_t got =
          recv(each.visitor.socket.descriptor(), each.visitor.hello.data() + each.got, helloBytes - each.got, 0);
      if (got > 0)
        each.got += size_t(got);
      const bool isGone = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
      if (each.got == helloBytes) {
        Visitor come = std::move(each.visitor);
        waiting.erase(waiting.begin() + ptrdiff_t(i));
        return come;
      }
      if (isGone || now - each.since > kPatience) {
        waiting.erase(waiting.begin() + ptrdiff_t(i));
        ++gone;
      } else {
        ++i;
      }
    }
    if (now >= end)
      return std::nullopt;
    std::vector<pollfd> descriptors = {{listener.descriptor(), POLLIN, 0}};
    for (const Waiting &each : waiting)
      descriptors.push_back({each.visitor.socket.descriptor(), POLLIN, 0});
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - now).count();
    poll(descriptors.data(), descriptors.size(), int(std::clamp<int64_t>(left + 1, 1, 100)));
  }
}

} // namespace echelon::runtime::tcp
