// Moments on the host, of which the device has two pieces: an update in pieces computes what one launch does.
#include "runtime/cuda/Offload.h"
#include "UnderSeeds.h"
#include "runtime/cuda/Pack.h"
#include "runtime/launch/Launch.h"
#include "runtime/program/OffloadPiece.h"

#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace echelon::cuda {
namespace {

constexpr int64_t kLengths[] = {70'001, 3, 16, 20'000, 5}; // of the parameters: the first is larger than a piece
constexpr int64_t kPiece = int64_t(64) << 10, kSteps = 4;

/// Where parameters begin, 64 bytes aligned; then where they end.
std::vector<int64_t> begins() {
  std::vector<int64_t> all{0};
  for (int64_t n : kLengths)
    all.push_back(all.back() + (n * 4 + 63) / 64 * 64);
  return all;
}
int64_t paramBytes() { return (begins().back() + kPiece - 1) / kPiece * kPiece; }

/// w -= m += 1, so that every number is whole.
__global__ void momentum(const Tensors<4, float, float> tensors) {
  const auto [w, m, n, i] = tensors.of_thread();
  if (i >= n)
    return;
  auto w_pack = load<4>(w + i, n - i);
  auto m_pack = load<4>(m + i, n - i);
  for (int j = 0; j < 4; ++j) {
    m_pack[j] += 1;
    w_pack[j] -= m_pack[j];
  }
  store(m + i, m_pack, n - i);
  store(w + i, w_pack, n - i);
}

/// As a program would: the update of all in pieces, but for one that is on the device whole.
void step(Rank &r) {
  const std::vector<int64_t> at = begins();
  const auto w = [&](int t) { return r.state<float>(at[size_t(t)]); };
  const auto m = [&](int t) { return r.state<float>(paramBytes() + at[size_t(t)]); };
  launch_in_pieces(
      "momentum", momentum, r,
      {{w(0), m(0), kLengths[0]}, {w(1), m(1), kLengths[1]}, {w(2), m(2), kLengths[2]}, {w(4), m(4), kLengths[4]}});
  auto *there = r.work<float>(0);
  fetch(r, there, m(3), kLengths[3]);
  launch_each("momentum", momentum, static_cast<Stream>(r), {{w(3), there, kLengths[3]}});
  write_back(r, m(3), there, kLengths[3]);
}

runtime::Program program(const std::string &directory, bool offloads = true) {
  runtime::Program p;
  p.stateBytes = 2 * paramBytes();
  p.workBytes = paramBytes();
  p.batch = 1;
  p.device = device;
  if (offloads)
    p.offload = {directory, paramBytes(), paramBytes(), paramBytes(), kPiece};
  return p;
}

int onOneRank(const runtime::Program &program, const std::function<void(Host &)> &body) {
  runtime::LaunchOptions options;
  options.transport = "threads";
  return runtime::launch(options, [&](runtime::Transport &transport) {
    Host host(program, transport);
    body(host);
    return 0;
  });
}

/// Steps, the last of them as a graph, and what the state is then.
void expectSteps(const runtime::Program &program) {
  EXPECT_EQ(onOneRank(program,
                      [](Host &host) {
                        std::fill_n(host.state<float>(0), 2 * paramBytes() / 4, 0.0f);
                        host.stateToDevice();
                        for (int64_t s = 0; s < kSteps; ++s) {
                          host.beginTraining(s);
                          run(host, step);
                        }
                        host.stateFromDevice();
                        const std::vector<int64_t> at = begins();
                        for (size_t t = 0; t < std::size(kLengths); ++t) {
                          const float *w = host.state<float>(at[t]), *m = host.state<float>(paramBytes() + at[t]);
                          for (int64_t i = 0; i < kLengths[t]; ++i)
                            ASSERT_TRUE(m[i] == kSteps && w[i] == -kSteps * (kSteps + 1) / 2)
                                << "element " << i << " of " << t << ": " << m[i] << ", " << w[i];
                        }
                      }),
            0);
}

TEST(OffloadedPieces, OfTheHost) {
  underSeeds([] { expectSteps(program("")); });
}

TEST(OffloadedPieces, OfAFile) {
  const std::string folder = (std::filesystem::current_path() / ("offload-cuda-" + std::to_string(getpid()))).string();
  std::filesystem::create_directories(folder);
  underSeeds([&] { expectSteps(program(folder)); });
  std::filesystem::remove_all(folder);
}

// Memory that CUDA refuses to pin is copied through such that it has.
TEST(OffloadedPieces, OfMemoryThatCannotBePinned) {
  runtime::Program p = program("");
  p.device = [](Host &host) -> std::unique_ptr<runtime::Device> {
    cudaHostRegister(host.state<std::byte>(host.program().offload.from), 64, cudaHostRegisterDefault);
    std::unique_ptr<runtime::Device> made = device(host);
    cudaHostUnregister(host.state<std::byte>(host.program().offload.from));
    EXPECT_EQ(host.notes().size(), 1u);
    EXPECT_EQ(host.notes().front().rfind("offload optimizer to host: this memory cannot be pinned (", 0), 0u);
    return made;
  };
  underSeeds([&] { expectSteps(p); });
}

// The device has all but the moments, and two pieces.
TEST(OffloadedPieces, AreAllThatTheDeviceHas) {
  const auto used = [](const runtime::Program &p) {
    size_t before = 0, after = 0, total = 0;
    cudaMemGetInfo(&before, &total);
    onOneRank(p, [&](Host &) { cudaMemGetInfo(&after, &total); });
    return int64_t(before - after);
  };
  EXPECT_EQ(used(program("", false)) - used(program("")), paramBytes() - 2 * kPiece);
}

TEST(OffloadedPieces, OfTooMuchMemoryAreRefused) {
  runtime::Program p = program("");
  p.offload.piece = int64_t(90) << 30;
  EXPECT_EXIT(std::exit(onOneRank(p, [](Host &) {})), testing::ExitedWithCode(4),
              "cudaMalloc of a piece of what is offloaded on the GPU: out of memory");
}

// Neighbours in the state arena move together; a tensor is cut where a piece is full.
TEST(OffloadedPieces, AreDivided) {
  onOneRank(program(""), [](Host &host) {
    OffloadedPieces pieces(host, nullptr);
    std::vector<OffloadedPieces::Rows> rows;
    std::vector<std::byte> param(4);
    for (size_t t = 0; t < std::size(kLengths); ++t)
      rows.push_back({{param.data(), host.state<std::byte>(paramBytes() + begins()[t])}, kLengths[t]});
    int64_t elements = 0, spans = 0;
    const auto divided = pieces.divide(rows, {4, 4});
    for (const OffloadedPiece &piece : divided) {
      EXPECT_LE(piece.bytes, kPiece);
      spans += int64_t(piece.spans.size());
      for (const PieceOfTensor &part : piece.parts) {
        elements += part.count;
        EXPECT_EQ(part.at[0], -1);
        EXPECT_EQ(part.at[1] % 64, 0);
      }
    }
    EXPECT_EQ(elements, 70'001 + 3 + 16 + 20'000 + 5);
    EXPECT_EQ(spans, int64_t(divided.size()));
    EXPECT_EQ(divided.size(), 6u); // 360 KB
  });
}

} // namespace
} // namespace echelon::cuda
