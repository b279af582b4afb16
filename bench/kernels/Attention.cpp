// Attention. Counts what is not masked: of causal calls the pairs that a query sees.
#include "runtime/kernels/Attention.h"
#include "Bench.h"
#include <cmath>

namespace echelon::bench {

using namespace runtime;

void attentions() {
  heading("attention, unmasked flop");
  struct Case {
    int64_t batch, head, seq, key;
    bool causal;
  };
  for (Case c :
       {Case{12, 12, 12, 16, false}, Case{32, 2, 64, 32, true}, Case{4, 12, 64, 64, true}, Case{4, 6, 256, 64, true},
        Case{4, 6, 256, 64, false}, Case{1, 12, 1024, 64, true}, Case{1, 12, 1024, 64, false}}) {
    AttentionShape s{c.batch, 1, c.head, c.seq, c.seq, c.key, c.key, 1 / std::sqrt(double(c.key)), c.causal};
    HeadStrides h{c.seq * c.head * c.key, 0, c.key, c.head * c.key};
    AttentionStrides strides{h, h, h, h};
    int64_t n = c.batch * c.seq * c.head * c.key;
    Values q(n, 1), k(n, 2), v(n, 3), d(n, 4);
    Array<float> out(n), top(c.batch * c.head * c.seq), sum(top.size), want(n), wantTop(top.size), wantSum(top.size);
    Array<float> dq(n), dk(n), dv(n);
    std::string name = std::to_string(c.batch) + " x " + std::to_string(c.head) + " x " + std::to_string(c.seq) +
                       ", key " + std::to_string(c.key) + (c.causal ? ", causal" : "");
    double pairs = c.causal ? 0.5 * c.seq * (c.seq + 1) : double(c.seq) * c.seq;
    double work = 4.0 * c.batch * c.head * pairs * c.key;
    flops(
        name, work, [&] { attention<float>(out, top, sum, q, k, v, s, strides); },
        [&] { reference::attention<float>(want, wantTop, wantSum, q, k, v, s, strides, nullptr, nullptr); },
        {{out, want, n}, {sum, wantSum, sum.size}});
    flops("  its derivative", 2.5 * work,
          [&] { attention_grad<float>(dq, dk, dv, nullptr, d, out, top, sum, q, k, v, s, strides, strides); });
  }
}

} // namespace echelon::bench
