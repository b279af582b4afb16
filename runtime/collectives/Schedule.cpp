#include "runtime/collectives/Schedule.h"

#include "runtime/transport/shared/DirectPass.h"

#include <cstring>

namespace echelon::runtime {

Schedule::Schedule(Transport &transport, const Group &group, const CollectiveCall &call)
    : call(call), transport(transport), group(group), label(call.label), tag(transport.nextTag(group)), rounds(1) {}

void Schedule::send(int to, const void *data, int64_t count) { sendBytes(to, data, count * int64_t(elementBytes())); }
void Schedule::receive(int from, void *data, int64_t count) {
  receiveBytes(from, data, count * int64_t(elementBytes()));
}
void Schedule::sendBytes(int to, const void *data, int64_t bytes) {
  if (bytes)
    rounds.back().messages.push_back({true, group.ranks[to], const_cast<void *>(data), size_t(bytes)});
}
void Schedule::receiveBytes(int from, void *data, int64_t bytes) {
  if (bytes)
    rounds.back().messages.push_back({false, group.ranks[from], data, size_t(bytes)});
}
void Schedule::reduce(void *target, const void *left, const void *right, int64_t count) {
  if (count)
    rounds.back().locals.push_back({target, left, right, count});
}
void Schedule::copy(void *target, const void *source, int64_t count) {
  if (count && target != source)
    rounds.back().locals.push_back({target, source, nullptr, count});
}
void Schedule::pass(Pass how, void *target, const void *source, int64_t count) {
  if (count)
    rounds.back().locals.push_back({target, source, nullptr, count, how});
}
void Schedule::copyRowsIn(void *rows) {
  forEachPiece(call, places(), 0, call.count, [&](int64_t from, int64_t to, int64_t count) {
    copy(static_cast<char *>(rows) + to * elementBytes(), in() + from * elementBytes(), count);
  });
}
void Schedule::copyRowsOut(const void *rows) {
  forEachPiece(call, places(), 0, call.count, [&](int64_t to, int64_t from, int64_t count) {
    copy(out() + to * elementBytes(), static_cast<const char *>(rows) + from * elementBytes(), count);
  });
}
void Schedule::nextRound() {
  if (!rounds.back().messages.empty() || !rounds.back().locals.empty())
    rounds.emplace_back();
}
char *Schedule::scratch(int64_t count) { return scratchBytes(count * int64_t(elementBytes())); }
char *Schedule::scratchBytes(int64_t bytes) {
  scratches.emplace_back(static_cast<size_t>(bytes));
  return scratches.back().data();
}

void Schedule::beginRound() {
  isBegun = true;
  for (const Message &message : rounds[current].messages)
    pending.push_back(message.isSend ? transport.isend(message.peer, message.data, message.bytes, tag, "")
                                     : transport.ireceive(message.peer, message.data, message.bytes, tag, ""));
}

bool Schedule::finishRound(bool mayWait) {
  while (!pending.empty()) {
    if (mayWait)
      transport.wait(pending.back());
    else if (!transport.test(pending.back()))
      return false;
    pending.pop_back();
  }
  for (const Local &local : rounds[current].locals)
    if (local.how)
      local.how(local.target, local.left, local.count);
    else if (local.right)
      combine(local.target, local.left, local.right, local.count, call.type, call.op);
    else
      std::memcpy(local.target, local.left, local.count * elementBytes());
  ++current;
  isBegun = false;
  return true;
}

bool Schedule::advance() {
  while (current < rounds.size()) {
    if (!isBegun)
      beginRound();
    if (!finishRound(false))
      return false;
  }
  return true;
}

void Schedule::runInBackground() { transport.addBackground(*this); }

void Schedule::finish() {
  transport.removeBackground(*this);
  if (current < rounds.size())
    transport.setPlace(doing(call.kind), label.c_str());
  while (current < rounds.size()) {
    if (!isBegun)
      beginRound();
    finishRound(true);
  }
}

} // namespace echelon::runtime
