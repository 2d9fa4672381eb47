// Waiting on words of shared memory, by the futex calls of Linux.

#ifndef TFAGENTS_BATCH_FUTEX_H_
#define TFAGENTS_BATCH_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <vector>

namespace tfab __attribute__((visibility("hidden"))) {

using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free);

constexpr int64_t kNever = INT64_MAX;
constexpr int64_t kSlice = 100'000;  // ns, longest sleep without a wake-up

inline int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

inline void FutexWait(Word* word, uint32_t value, int64_t deadline) {
  timespec until{deadline / 1'000'000'000, deadline % 1'000'000'000};
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value,
          deadline == kNever ? nullptr : &until, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

struct Sleep {
  Word* word;
  uint32_t value;
};

// Waits until one of several words has another value.
inline void FutexWaitAny(const std::vector<Sleep>& sleeps, int64_t deadline) {
  if (sleeps.size() == 1)
    return FutexWait(sleeps[0].word, sleeps[0].value, deadline);
  struct Waiter {  // struct futex_waitv of the kernel
    uint64_t value, address;
    uint32_t flags, reserved;
  };
  constexpr long kWaitV = 449;
  constexpr size_t kMost = 128;
  constexpr uint32_t kSize32 = 2;
  Waiter waiters[kMost];
  const size_t count = std::min(sleeps.size(), kMost);
  for (size_t i = 0; i < count; ++i)
    waiters[i] = {sleeps[i].value, reinterpret_cast<uintptr_t>(sleeps[i].word),
                  kSize32, 0};
  if (sleeps.size() > kMost) deadline = std::min(deadline, Now() + kSlice);
  timespec until{deadline / 1'000'000'000, deadline % 1'000'000'000};
  const long result = syscall(kWaitV, waiters, count, 0,
                              deadline == kNever ? nullptr : &until, CLOCK_MONOTONIC);
  // Before Linux 5.16, or if a container forbids the call: sleep briefly, check again.
  const bool known = errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT;
  if (result < 0 && !known)
    FutexWait(sleeps[0].word, sleeps[0].value, std::min(deadline, Now() + kSlice));
}

inline void FutexWake(Word* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace tfab

#endif  // TFAGENTS_BATCH_FUTEX_H_
