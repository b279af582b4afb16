#include "CollectiveChecks.h"
#include "Ranks.h"

#include <atomic>
#include <chrono>
#include <random>
#include <sys/mman.h>
#include <thread>

namespace echelon::runtime::test {
namespace {

// Buckets started one after another and waited for in another order than they were started in.
void checkBuckets(Transport &t, Algorithm algorithm, bool isShared, int64_t count) {
  constexpr int kBuckets = 7;
  std::vector<std::vector<float>> own(kBuckets);
  std::vector<float *> data(kBuckets);
  std::vector<Ticket> tickets;
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    own[bucket].resize(count);
    data[bucket] = isShared ? static_cast<float *>(t.allocate(count * sizeof(float))) : own[bucket].data();
    for (int64_t i = 0; i < count; ++i)
      data[bucket][i] = valueOf<float>(t.rank(), i, bucket);
    tickets.push_back(all_reduce_start(t, t.world(), data[bucket], count, Sum, {algorithm, "bucket"}));
    float one = 1; // a blocking collective between the buckets
    all_reduce(t, t.world(), &one, 1, Sum, "between");
    if (one != float(t.size()))
      throw std::string("the collective between buckets gave ") + std::to_string(one);
  }
  for (int bucket : {3, 0, 6, 1, 2, 5, 4}) {
    tickets[bucket].wait();
    for (int64_t i = 0; i < count; i += 1 + count / 5000)
      expectSame(data[bucket], reduced<float>(t.world().ranks, i, bucket, Sum), i,
                 std::string("bucket, ") + nameOf(algorithm));
  }
}

TEST(Asynchronous, BucketsMayBeWaitedForInAnyOrder) {
  for (const char *transport : {"threads", "shm", "tcp"})
    for (int ranks : {2, 5})
      onRanks(transport, ranks, [](Transport &t) {
        for (Algorithm algorithm : {ownAlgorithm(t), Algorithm::ring, Algorithm::tree})
          for (int64_t count : {10, 20000})
            checkBuckets(t, algorithm, false, count);
        checkBuckets(t, ownAlgorithm(t), true, 50000);
        if (t.size() == 2)
          checkBuckets(t, ownAlgorithm(t), false, 600000); // more pieces than there is staging for
      });
}

// More collectives under way than the group has slots.
TEST(Asynchronous, ManyAtOnce) {
  for (const char *transport : {"threads", "shm", "tcp"})
    onRanks(transport, 3, [](Transport &t) {
      std::vector<int32_t> values(100);
      std::vector<Ticket> tickets;
      for (int i = 0; i < 100; ++i) {
        values[i] = i + t.rank();
        tickets.push_back(all_reduce_start(t, t.world(), &values[i], 1, Max));
      }
      for (int i = 99; i >= 0; --i) {
        tickets[i].wait();
        expectSame(values.data(), i + 2, i, "many");
      }
    });
}

// Every kind of collective started on two groups of a mesh, in random order, the same on all ranks, with random
// computation in between.
TEST(Asynchronous, RandomProgramsOnTwoGroups) {
  for (const char *transport : {"threads", "shm", "tcp"})
    onRanks(transport, 4, [](Transport &t) {
      Group rows = t.makeGroup({2, 2}, {1}), columns = t.makeGroup({2, 2}, {0});
      std::mt19937 program(7), pauses(t.rank());
      for (int round = 0; round < 60; ++round) {
        struct Started {
          Ticket ticket;
          std::vector<float> data, out;
          const Group *group;
          int kind;
        };
        std::vector<std::unique_ptr<Started>> started;
        for (int i = 0; i < 5; ++i) {
          auto s = std::make_unique<Started>();
          s->group = program() % 2 ? &rows : &columns;
          s->kind = program() % 4;
          const int64_t n = 1 + program() % (program() % 4 == 0 ? 20000 : 300);
          const Algorithm algorithm = program() % 2 ? ownAlgorithm(t) : Algorithm::butterfly;
          s->data.resize(2 * n);
          s->out.resize(2 * n);
          for (int64_t j = 0; j < 2 * n; ++j)
            s->data[j] = valueOf<float>(t.rank(), j, i);
          float *data = s->data.data(), *out = s->out.data();
          if (s->kind == 0) {
            s->ticket = all_reduce_start(t, *s->group, data, 2 * n, Sum, algorithm);
          } else if (s->kind == 1) {
            s->ticket = reduce_scatter_start(t, *s->group, out, data, n, Sum, algorithm);
          } else if (s->kind == 2) {
            s->ticket = all_gather_start(t, *s->group, out, data, n, algorithm);
          } else {
            s->ticket = all_to_all_start(t, *s->group, out, data, n, algorithm);
          }
          started.push_back(std::move(s));
          if (pauses() % 3 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(pauses() % 200));
        }
        std::shuffle(started.begin(), started.end(), program);
        for (size_t i = 0; i < started.size(); ++i) {
          Started &s = *started[i];
          s.ticket.wait();
          const std::vector<int> &ranks = s.group->ranks;
          const int me = s.group->index;
          const int64_t n = s.data.size() / 2;
          // The salt is the number of the start: find it from the first element of what nobody overwrote.
          for (int64_t j = 0; j < n; j += 1 + n / 50) {
            bool fits = false;
            for (int salt = 0; salt < 5 && !fits; ++salt) {
              float want = s.kind == 0   ? reduced<float>(ranks, j, salt, Sum)
                           : s.kind == 1 ? reduced<float>(ranks, me * n + j, salt, Sum)
                           : s.kind == 2 ? valueOf<float>(ranks[0], j, salt)
                                         : valueOf<float>(ranks[0], me * n + j, salt);
              fits = want == (s.kind == 0 ? s.data[j] : s.out[j]);
            }
            if (!fits)
              throw std::string("a random program went wrong in round ") + std::to_string(round);
          }
        }
      }
    });
}

// All kinds under way together, short and in pieces, waited for backwards: each gives what the blocking form gives.
TEST(Asynchronous, EveryStartedForm) {
  for (const char *transport : {"threads", "shm", "tcp"})
    for (int ranks : {2, 3})
      onRanks(transport, ranks, [](Transport &t) {
        const Group &g = t.world();
        const int p = g.size(), me = g.index, root = p - 1;
        for (Algorithm algorithm : {ownAlgorithm(t), Algorithm::ring, Algorithm::butterfly, Algorithm::one_to_all})
          for (int64_t n : {3, 100000}) {
            std::vector<std::vector<float>> in(10), out(10);
            for (int k = 0; k < 10; ++k) {
              in[k].resize(n * p);
              out[k].resize(n * p);
              for (int64_t i = 0; i < n * p; ++i)
                in[k][i] = valueOf<float>(t.rank(), i, k);
            }
            std::vector<Ticket> tickets;
            tickets.push_back(all_reduce_start(t, g, in[0].data(), n, Max, algorithm));
            tickets.push_back(reduce_start(t, g, in[1].data(), n, Sum, root, algorithm));
            tickets.push_back(broadcast_start(t, g, in[2].data(), n, root, algorithm));
            tickets.push_back(scatter_start(t, g, out[3].data(), in[3].data(), n, root, algorithm));
            tickets.push_back(gather_start(t, g, out[4].data(), in[4].data(), n, root, algorithm));
            tickets.push_back(all_gather_start(t, g, out[5].data(), in[5].data(), n, algorithm));
            tickets.push_back(reduce_scatter_start(t, g, out[6].data(), in[6].data(), n, Sum, algorithm));
            tickets.push_back(all_to_all_start(t, g, out[7].data(), in[7].data(), n, algorithm));
            const int64_t runs = 3, length = n / runs;
            tickets.push_back(all_gather_inner_start(t, g, out[8].data(), in[8].data(), runs, length, algorithm));
            tickets.push_back(
                reduce_scatter_inner_start(t, g, out[9].data(), in[9].data(), runs, length, Sum, algorithm));
            tickets.push_back(barrier_start(t, g, algorithm));
            while (!tickets.empty())
              tickets.pop_back(); // the last first: a ticket that goes is waited for
            const std::string what = std::string("started, ") + nameOf(algorithm);
            for (int64_t i = 0; i < n; i += 1 + n / 500) {
              expectSame(in[0].data(), reduced<float>(g.ranks, i, 0, Max), i, what + " all_reduce");
              expectSame(in[1].data(), me == root ? reduced<float>(g.ranks, i, 1, Sum) : valueOf<float>(me, i, 1), i,
                         what + " reduce");
              expectSame(in[2].data(), valueOf<float>(root, i, 2), i, what + " broadcast");
              expectSame(out[3].data(), valueOf<float>(root, me * n + i, 3), i, what + " scatter");
              expectSame(out[6].data(), reduced<float>(g.ranks, me * n + i, 6, Sum), i, what + " reduce_scatter");
              if (i < runs * length)
                expectSame(out[9].data(), reduced<float>(g.ranks, (i / length * p + me) * length + i % length, 9, Sum),
                           i, what + " reduce_scatter_inner");
              for (int row = 0; row < p; ++row) {
                if (i < runs * length)
                  expectSame(out[8].data() + (i / length * p + row) * length + i % length - i,
                             valueOf<float>(row, i, 8), i, what + " all_gather_inner");
                if (me == root)
                  expectSame(out[4].data() + row * n, valueOf<float>(row, i, 4), i, what + " gather");
                expectSame(out[5].data() + row * n, valueOf<float>(row, i, 5), i, what + " all_gather");
                expectSame(out[7].data() + row * n, valueOf<float>(row, me * n + i, 7), i, what + " all_to_all");
              }
            }
          }
      });
}

// A rank that has started and computes does not hold up those that wait: they do its share.
TEST(Asynchronous, OthersDoNotWaitForOneThatComputes) {
  auto *through = static_cast<std::atomic<bool> *>( // rank 0 is, and rank 1 computes until then
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  for (const char *transport : {"threads", "shm"}) {
    through->store(false);
    onRanks(transport, 2, [through](Transport &t) {
      const int64_t count = 500000;
      float *data = static_cast<float *>(t.allocate(count * sizeof(float)));
      std::fill(data, data + count, 1.0f);
      barrier(t, t.world());
      Ticket ticket = all_reduce_start(t, t.world(), data, count, Sum);
      for (int tries = 0; t.rank() == 1 && !through->load(); ++tries) {
        if (tries == 30000)
          throw std::string("rank 0 waits for one that computes");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      ticket.wait();
      through->store(true);
      for (int64_t i = 0; i < count; ++i)
        expectSame(data, 2.0f, i, "overlapped");
      barrier(t, t.world());
    });
  }
  munmap(through, 4096);
}

// test() completes what wait() would.
TEST(Asynchronous, TestMovesOn) {
  for (const char *transport : {"threads", "shm", "tcp"})
    onRanks(transport, 3, [](Transport &t) {
      for (Algorithm algorithm : {ownAlgorithm(t), Algorithm::ring, Algorithm::butterfly})
        for (int64_t count : {100, 30000}) {
          std::vector<double> data(count, t.rank());
          Ticket ticket = all_reduce_start(t, t.world(), data.data(), count, Sum, algorithm);
          while (!ticket.test())
            std::this_thread::yield();
          for (int64_t i = 0; i < count; ++i)
            expectSame(data.data(), 3.0, i, "tested");
        }
    });
}

} // namespace
} // namespace echelon::runtime::test
