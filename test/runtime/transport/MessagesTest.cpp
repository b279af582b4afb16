#include "CollectiveChecks.h"
#include "Ranks.h"

#include <numeric>

namespace echelon::runtime::test {
namespace {

// Message `number` from one rank to another.
std::vector<int32_t> contentOf(int from, int to, int number, int64_t count) {
  std::vector<int32_t> content(count);
  std::iota(content.begin(), content.end(), from * 1000000 + to * 10000 + number);
  return content;
}

const int64_t kCounts[] = {0, 1, 100, 8192, 8193, 70000, 400000};

// Every rank sends to every rank, long and short, before anyone receives; the receiver asks in the opposite order of
// ranks. Messages of one pair keep their order.
TEST(Messages, AllPairsAllLengths) {
  for (const char *transport : {"threads", "shm", "tcp"})
    for (bool isShared : {false, true})
      onRanks(transport, 3, [&](Transport &t) {
        std::vector<std::vector<int32_t>> kept;
        std::vector<Request> sends;
        for (int to = 0; to < t.size(); ++to)
          for (int number = 0; number < 7; ++number) {
            kept.push_back(contentOf(t.rank(), to, number, kCounts[number]));
            int32_t *data = kept.back().data();
            if (isShared) {
              data = static_cast<int32_t *>(t.allocate(kCounts[number] * 4));
              std::copy(kept.back().begin(), kept.back().end(), data);
            }
            sends.push_back(t.isend(to, data, kCounts[number] * 4, 0, "pairs"));
          }
        for (int from = t.size() - 1; from >= 0; --from)
          for (int number = 0; number < 7; ++number) {
            std::vector<int32_t> got(kCounts[number]);
            t.receive(from, got.data(), kCounts[number] * 4, 0, "pairs");
            if (got != contentOf(from, t.rank(), number, kCounts[number]))
              throw "message " + std::to_string(number) + " from rank " + std::to_string(from) +
                  " is not what was sent";
          }
        for (Request request : sends)
          t.wait(request);
      });
}

// Messages with different tags may be asked for in another order than they were sent in.
TEST(Messages, TagsAreIndependent) {
  for (const char *transport : {"threads", "shm", "tcp"})
    onRanks(transport, 2, [&](Transport &t) {
      for (int64_t count : {10, 50000}) {
        std::vector<int32_t> data[5];
        Request requests[5];
        for (int tag = 0; tag < 5; ++tag) {
          data[tag] = contentOf(0, 1, tag, t.rank() == 0 ? count : 0);
          data[tag].resize(count);
        }
        for (int i = 0; i < 5; ++i) {
          const int tag = t.rank() == 0 ? i : 4 - i;
          requests[tag] = t.rank() == 0 ? t.isend(1, data[tag].data(), count * 4, tag, "tags")
                                        : t.ireceive(0, data[tag].data(), count * 4, tag, "tags");
          if (t.rank() == 1)
            t.wait(requests[tag]);
        }
        for (int tag = 0; tag < 5; ++tag) {
          if (t.rank() == 0)
            t.wait(requests[tag]);
          else if (data[tag] != contentOf(0, 1, tag, count))
            throw "tag " + std::to_string(tag) + " is not what was sent";
        }
      }
    });
}

// Both ranks send first: neither depends on the other's receive.
TEST(Messages, ExchangeOfLongMessages) {
  for (const char *transport : {"threads", "shm", "tcp"})
    onRanks(transport, 2, [&](Transport &t) {
      std::vector<int32_t> away = contentOf(t.rank(), 1 - t.rank(), 0, 300000), here(300000);
      Ticket sending = send_start(t, t.world(), 1 - t.rank(), away.data(), 300000);
      Ticket receiving = receive_start(t, t.world(), 1 - t.rank(), here.data(), 300000);
      sending.wait();
      receiving.wait();
      if (here != contentOf(1 - t.rank(), t.rank(), 0, 300000))
        throw std::string("the exchange went wrong");
    });
}

} // namespace
} // namespace echelon::runtime::test
