#include "runtime/transport/RankStatus.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

namespace echelon::runtime {

double StepTimes::median() const {
  auto sorted = seconds;
  const auto end = sorted.begin() + std::clamp<int64_t>(begun - 1, 0, sorted.size()),
             middle = sorted.begin() + (end - sorted.begin()) / 2;
  if (end == sorted.begin())
    return 0;
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

void RankStatus::useClockOf(bool thread) {
  clockid_t found;
  if ((thread ? pthread_getcpuclockid(pthread_self(), &found) : clock_getcpuclockid(getpid(), &found)) != 0)
    return;
  clock.store(found, std::memory_order_relaxed);
  hasClock.store(true, std::memory_order_release);
}

void RankStatus::setStep(int64_t newStep) {
  steps.begin();
  step.store(newStep, std::memory_order_relaxed);
  setComputes(true);
}

void RankStatus::setPlace(Activity what, const char *newLabel) {
  doing.store(what, std::memory_order_relaxed);
  for (int word = 0; word < kLabelWords; ++word) {
    char bytes[8] = {};
    int length = 0;
    while (length < 8 && newLabel[length])
      ++length;
    std::memcpy(bytes, newLabel, length);
    uint64_t value;
    std::memcpy(&value, bytes, 8);
    label[word].store(value, std::memory_order_relaxed);
    if (length < 8)
      break;
    newLabel += 8;
  }
}

void RankStatus::setComputes(bool newComputes) {
  if (newComputes)
    computedFrom.store(processorSeconds(), std::memory_order_relaxed);
  computes.store(newComputes, std::memory_order_relaxed);
}

std::string RankStatus::place() const {
  const std::string what = nameOf(doing.load(std::memory_order_relaxed));
  char text[8 * kLabelWords + 1] = {};
  for (int word = 0; word < kLabelWords; ++word) {
    uint64_t value = label[word].load(std::memory_order_relaxed);
    std::memcpy(text + 8 * word, &value, 8);
    if (!text[8 * word + 7])
      break;
  }
  return text[0] ? what + " (" + text + ")" : what;
}

std::string RankStatus::placeAndStep() const {
  const int64_t now = step.load(std::memory_order_relaxed);
  return place() + (now >= 0 ? " at step " + std::to_string(now) : "");
}

std::string RankStatus::describe() const {
  const int64_t now = step.load(std::memory_order_relaxed);
  std::string text = now >= 0 ? "at step " + std::to_string(now) : "before the first step";
  if (doing.load(std::memory_order_relaxed) != Activity::Start)
    text += ", " + std::string(waitsFor.load(std::memory_order_relaxed) >= 0 ? "in " : "last in ") + place();
  return text;
}

bool RankStatus::isStopped() const {
  const int pid = process.load(std::memory_order_relaxed);
  if (pid <= 0)
    return false;
  std::FILE *file = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "r");
  if (!file)
    return false;
  char text[256] = {};
  const size_t read = std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  const char *behindName = read ? std::strrchr(text, ')') : nullptr;
  return behindName && behindName[1] == ' ' && (behindName[2] == 'T' || behindName[2] == 't');
}

double RankStatus::processorSeconds() const {
  timespec time;
  if (!hasClock.load(std::memory_order_acquire) || clock_gettime(clock.load(std::memory_order_relaxed), &time) != 0)
    return 0;
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec) - aside.load(std::memory_order_relaxed);
}

bool Suspicion::isHopeless(const RankStatus &own, double stepSeconds, const RankStatus &late, double waitedSeconds) {
  const double now = late.processorSeconds();
  if (&late != watched) {
    watched = &late;
    processorThen = now;
    ownProcessor = own.processorSeconds() - own.computedFrom.load(std::memory_order_relaxed);
  }
  constexpr double kLeast = 2, kTelling = 0.9; // the rest is for telling it and ending the others
  const double some = kTelling * std::max(kLeast, 5 * stepSeconds);
  if (waitedSeconds < some)
    return false;
  if (late.isStopped())
    return true;
  return stepSeconds > 0 && own.computes.load(std::memory_order_relaxed) &&
         late.computes.load(std::memory_order_relaxed) && late.waitsFor.load(std::memory_order_relaxed) < 0 &&
         now - processorThen > std::max(some - 0.5, 2 * ownProcessor);
}

std::string lateMessage(const RankStatus &own, int rank, const RankStatus &late, double waitedSeconds,
                        double deadlineSeconds) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, waitedSeconds > deadlineSeconds ? "%g" : "%.1f",
                std::min(waitedSeconds, deadlineSeconds));
  const std::string who = "rank " + std::to_string(rank), here = own.placeAndStep(), where = late.describe();
  if (late.exitCode.load(std::memory_order_relaxed) >= 0)
    return who + " ended and did not come to " + here + "; it was " + where;
  const std::string came = "did not come to " + here + " within " + seconds + " s; it ";
  if (late.isStopped())
    return who + " is stopped (by SIGSTOP or a debugger) and " + came + "was " + where;
  return who + " " + came + "is " + where;
}

} // namespace echelon::runtime
