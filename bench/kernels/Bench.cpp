#include "Bench.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace echelon::bench {

double peak;

Values::Values(int64_t n, unsigned seed) : Array(n) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const int64_t fresh = std::min<int64_t>(n, 100003);
  for (int64_t i = 0; i < fresh; ++i)
    data[i] = normal(random);
  for (int64_t i = fresh; i < n; ++i)
    data[i] = data[i - fresh];
}

void heading(const char *title) {
  std::printf("%-46s %10s %10s %13s %14s\n", title, "", "limit", "of the limit", "by reference");
}

static void compare(const std::string &name, const Compared &c) {
  double most = 0, off = 0;
  for (int64_t i = 0; i < c.size; ++i) {
    most = std::max(most, std::abs(double(c.want[i])));
    double difference = std::abs(double(c.got[i]) - double(c.want[i]));
    off = std::isfinite(difference) || c.got[i] == c.want[i] ? std::max(off, difference) : INFINITY;
  }
  if (off <= c.tolerance * most)
    return;
  std::fprintf(stderr, "%s: differs from its reference by %g, where the largest value is %g\n", name.c_str(), off,
               most);
  std::exit(1);
}

/// Checks against the reference; how many times longer that takes, or a dash.
static std::string besideReference(const std::string &name, double t, const Call &kernel, const Call &reference,
                                   const std::vector<Compared> &results) {
  if (!reference)
    return "-";
  kernel();
  double start = runtime::secondsNow();
  reference();
  double theirs = runtime::secondsNow() - start;
  for (const Compared &c : results)
    compare(name, c);
  if (theirs < 0.05) // a first call is a bad sample
    theirs = fastest(reference, 0.01);
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f times", theirs / t);
  return text;
}

static void line(const std::string &name, double rate, double limit, const char *unit, const std::string &reference) {
  std::printf("%-46s %10.1f %10.1f %11.0f %% %14s  %s\n", name.c_str(), rate, limit, 100 * rate / limit,
              reference.c_str(), unit);
  std::fflush(stdout);
}

void flops(const std::string &name, double count, const Call &kernel, const Call &reference,
           const std::vector<Compared> &results) {
  double t = fastest(kernel);
  line(name, count / t * 1e-9, peak, "GFLOP/s", besideReference(name, t, kernel, reference, results));
}

void streams(const std::string &name, const Traffic &traffic, const Call &kernel, const Call &reference,
             const std::vector<Compared> &results) {
  StreamLoop loop(traffic);
  Pair t = inTurns(kernel, [&] { loop(); });
  const bool byArithmetic = traffic.arithmetic > t.limit;
  const double limit = byArithmetic ? traffic.arithmetic : t.limit;
  line(name, traffic.bytes() / t.kernel * 1e-9, traffic.bytes() / limit * 1e-9,
       byArithmetic ? "GB/s, arithmetic" : "GB/s", besideReference(name, t.kernel, kernel, reference, results));
}

} // namespace echelon::bench
