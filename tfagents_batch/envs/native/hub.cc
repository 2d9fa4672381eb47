// The native hub: worker processes driven from inside XLA programs.
//
// A hub maps a pool's shared memory, checks actions, wakes the workers, waits for
// them and copies their rows. Compiled programs, graphs and eager code call it by typed
// XLA FFI custom calls. Python opens, watches and closes it through a C interface.
// A call always returns: after a failure, a stop or the end of the pool every row is
// failed, that is both first and truncated, and `ok` is false. The hub records the
// reason; Python reads the record and raises the error. With `replaces_`, only the rows
// of a lost worker are failed, and the hub continues without it until it is replaced.
//
// Workers form groups of equal numbers of rows. `step` steps all groups; `send` and
// `receive` are for some of them.
//
// Nothing here takes Python's lock, throws, or allocates once a hub is open.

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

// Exported by TensorFlow's library. Its header cannot be included, because headers that
// it needs are not installed.
namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();
}

namespace {

namespace ffi = xla::ffi;
using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free);

constexpr int kInterface = 3;     // of the C functions below
constexpr int kMaxBuffers = 128;  // inputs or outputs of a call
constexpr int64_t kNever = INT64_MAX;
constexpr int64_t kGrace = 1'000'000'000;  // ns for other workers after a failure
constexpr int64_t kSlice = 100'000;        // ns, longest sleep without a wake-up
// Flag in kPending: check again. It is not the sign bit, because a late reply can make
// the next command's count negative, which only wakes the hub more often.
constexpr uint32_t kEvent = 1u << 30;
constexpr int64_t kLine = 64;              // bytes

// Words of a worker's line and of the hub's, as in layout.py.
enum WorkerWord { kCommandSequence, kCommand, kReplySequence, kStatus, kStop };
enum HubWord { kPending, kUnused, kSeedLow, kSeedHigh };
// Commands and status as in protocol.py.
enum Command : uint32_t { kReset = 3, kStep = 4, kClose = 5 };
enum Status : uint32_t { kOk = 0, kFailedStatus = 1 };
// The following values are shared with hub.py.
enum Kind { kNothing, kStale, kNoReset, kAction, kWorkers, kGroup, kBusy, kIdle };
enum State { kWaiting, kReplied, kFailed, kDead, kLate, kCut, kAway };
enum ActionKind { kFloatBox, kIntBox, kRange };

int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void FutexWait(Word* word, uint32_t value, int64_t deadline) {
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
void FutexWaitAny(const std::vector<Sleep>& sleeps, int64_t deadline) {
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

void FutexWake(Word* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

struct Array {
  int64_t offset;
  int64_t row_bytes;
};

struct ActionLeaf {
  ActionKind kind;
  ffi::DataType dtype;  // in shared memory
  int64_t offset;
  int64_t width;  // elements per row
  bool clips;
  std::vector<int64_t> low, high;          // `width` elements each
  std::vector<float> float_low, float_high;
};

struct Record {
  int64_t kind = kNothing;
  int64_t first = 0;   // token, row, or command
  int64_t second = 0;  // expected token, or leaf
};

class Reader {
 public:
  Reader(const int64_t* data, int64_t size) : data_(data), end_(data + size) {}
  int64_t Next() { return data_ < end_ ? *data_++ : (bad_ = true, 0); }
  float NextFloat() {
    const int64_t bits = Next();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return static_cast<float>(value);
  }
  bool Complete() const { return !bad_ && data_ == end_; }

 private:
  const int64_t *data_, *end_;
  bool bad_ = false;
};

template <typename F>
bool WithIntegers(ffi::DataType dtype, F&& function) {
  switch (dtype) {
    case ffi::DataType::PRED:
    case ffi::DataType::U8: function(uint8_t{}); return true;
    case ffi::DataType::U16: function(uint16_t{}); return true;
    case ffi::DataType::U32: function(uint32_t{}); return true;
    case ffi::DataType::U64: function(uint64_t{}); return true;
    case ffi::DataType::S8: function(int8_t{}); return true;
    case ffi::DataType::S16: function(int16_t{}); return true;
    case ffi::DataType::S32: function(int32_t{}); return true;
    case ffi::DataType::S64: function(int64_t{}); return true;
    default: return false;
  }
}

template <typename T>
int64_t Widened(T value) {
  if constexpr (std::is_same_v<T, uint64_t>)
    return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
  return static_cast<int64_t>(value);
}

class Hub {
 public:
  ~Hub() { Unmap(); }

  // Reads a plan that hub.py wrote; false if it is invalid.
  bool Open(int descriptor, const int64_t* plan, int64_t length) {
    Reader reader(plan, length);
    size_ = reader.Next();
    num_envs_ = reader.Next();
    num_workers_ = reader.Next();
    num_groups_ = reader.Next();
    replaces_ = reader.Next();
    attention_ = static_cast<int>(reader.Next());
    sequence_ = static_cast<uint32_t>(reader.Next());
    limits_[0] = reader.Next();
    limits_[1] = reader.Next();
    poll_ = reader.Next();
    for (int64_t i = 0; i <= num_workers_; ++i) first_row_.push_back(reader.Next());
    for (Array* array : {&reward_, &first_, &terminated_, &truncated_})
      *array = NextArray(reader);
    for (int64_t i = reader.Next(); i > 0; --i) info_.push_back(NextArray(reader));
    for (int64_t i = reader.Next(); i > 0; --i)
      observation_.push_back(NextArray(reader));
    for (int64_t i = reader.Next(); i > 0; --i) action_.push_back(NextAction(reader));
    if (!reader.Complete() || Outputs() + 2 > kMaxBuffers || Inputs() > kMaxBuffers)
      return false;
    if (num_groups_ < 1 || num_workers_ % num_groups_ || num_envs_ % num_groups_)
      return false;
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED,
                        descriptor, 0);
    if (memory == MAP_FAILED) return false;
    memory_ = static_cast<char*>(memory);
    state_ = std::vector<std::atomic<int>>(num_workers_);
    for (auto& state : state_) state.store(kReplied);
    sent_ = std::vector<std::atomic<uint32_t>>(num_workers_);
    deadline_.resize(num_workers_);
    away_.resize(num_workers_);
    for (auto* flags : {&dead_, &late_, &ready_})
      *flags = std::make_unique<std::atomic<bool>[]>(num_workers_);
    over_.resize(num_envs_, 1);
    lost_.resize(num_envs_);
    busy_.resize(num_groups_);
    order_.resize(num_groups_);
    command_.resize(num_groups_, kReset);
    for (int64_t group = 0; group < num_groups_; ++group) all_.push_back(group);
    some_.reserve(num_groups_);
    sleeps_.reserve(num_groups_);
    int64_t row_bytes = 0;
    for (const Array& array : observation_) {
      last_.emplace_back(num_envs_ * array.row_bytes);
      row_bytes += array.row_bytes;
    }
    int64_t widest = 1;
    for (const ActionLeaf& leaf : action_) widest = std::max(widest, leaf.width);
    refused_.resize(widest);
    return true;
  }

  int64_t Outputs() const { return observation_.size() + 4 + info_.size(); }
  int64_t Inputs() const { return action_.size(); }
  int64_t InputCount(int64_t i) const { return num_envs_ * action_[i].width; }
  int64_t OutputBytes(int64_t i) const { return num_envs_ * Output(i).row_bytes; }
  bool IsFloatInput(int64_t i) const { return action_[i].kind == kFloatBox; }
  int64_t NumGroups() const { return num_groups_; }

  // The calls. `out` are observation, reward, first, terminated, truncated and info;
  // their shapes were checked. Calls return the next token.

  int32_t Init(uint64_t seed, void* const* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!Usable()) return Fail(out, num_envs_);
    Drain();
    seed_ = seed;
    started_ = true;
    {
      std::lock_guard<std::mutex> data(data_mutex_);
      std::fill(over_.begin(), over_.end(), 1);
    }
    Word* line = Line(num_workers_);
    line[kSeedLow].store(static_cast<uint32_t>(seed));
    line[kSeedHigh].store(static_cast<uint32_t>(seed >> 32));
    return Run(kReset, out);
  }

  int32_t Step(int32_t token, const void* const* in,
               const ffi::DataType* dtypes, void* const* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!Usable()) return Fail(out, num_envs_);
    if (!InOrder(token) || !AreIdle(all_) ||
        !WriteActions(in, dtypes, 0, num_envs_, 0)) {
      failed_.store(true);
      return Fail(out, num_envs_);
    }
    ++steps_;
    return Run(kStep, out);
  }

  // Starts a step of groups; `in` holds their rows, group after group.
  int32_t Send(int32_t token, const int32_t* groups, int64_t count,
               const void* const* in, const ffi::DataType* dtypes) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!Usable()) return NextToken();
    const int64_t rows = num_envs_ / num_groups_;
    bool fine = InOrder(token) && Choose(groups, count) && AreIdle(some_);
    for (int64_t i = 0; fine && i < count; ++i)
      fine = WriteActions(in, dtypes, some_[i] * rows, (some_[i] + 1) * rows, i * rows);
    if (!fine) {
      failed_.store(true);
      return NextToken();
    }
    if (AdmitWorkers())
      for (int64_t group : some_) Begin(kStep, group);
    return NextToken();
  }

  // Waits for groups, or with `groups` null for the first `count` that are done. `out`
  // has their rows, group after group, and `found` their indices.
  int32_t Receive(int32_t token, const int32_t* groups, int64_t count,
                  int32_t* found, void* const* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    const int64_t rows = num_envs_ / num_groups_;
    for (int64_t i = 0; i < count; ++i) found[i] = groups ? groups[i] : i;
    if (!Usable()) return Fail(out, count * rows);
    if (!InOrder(token) || !ChooseBusy(groups, count)) {
      failed_.store(true);
      return Fail(out, count * rows);
    }
    ++steps_;
    const int64_t started = Now();
    WaitFor(some_, count);
    waited_ += Now() - started;
    if (groups == nullptr)  // groups that are done first, the earliest sent first
      std::stable_sort(some_.begin(), some_.end(), [&](int64_t a, int64_t b) {
        return std::pair(!Done(a), order_[a]) < std::pair(!Done(b), order_[b]);
      });
    for (int64_t i = 0; i < count; ++i) {
      found[i] = static_cast<int32_t>(some_[i]);
      Collect(some_[i], out, i * rows);
    }
    return NextToken();
  }

  bool Ok() const { return !failed_ && !stop_ && !ended_; }

  // Bit 0: a failure was recorded, here or by Python. Bit 1: a call came after the end.
  // Never waits for a running call.
  int Flags() const { return failed_ | used_ << 1; }

  // May be called from any thread.

  void Stop() {
    stop_.store(true);
    Wake();
  }

  void Died(int64_t worker) {
    if (worker < 0 || worker >= num_workers_) return;
    dead_[worker].store(true);
    Wake();
  }

  // A new process has replaced a lost worker.
  void Revive(int64_t worker) {
    if (worker < 0 || worker >= num_workers_) return;
    ready_[worker].store(true);  // later failures belong to the new worker
    dead_[worker].store(false);
    Wake();
  }

  // Workers that timed out; each is reported once.
  void Late(uint8_t* out) {
    for (int64_t worker = 0; worker < num_workers_; ++worker)
      out[worker] = late_[worker].exchange(false);
  }

  // Fails all rows from now on; Python has recorded the reason.
  void Refuse() {
    failed_.store(true);
    Wake();
  }

  // Ends the pool; later calls are recorded.
  void End() {
    ended_.store(true);
    Wake();
  }

  // Makes the workers check their sockets.
  void Poke() {
    Stop();
    std::lock_guard<std::mutex> lock(mutex_);
    if (memory_ == nullptr) return;
    ++sequence_;
    for (int64_t worker = 0; worker < num_workers_; ++worker)
      SendCommand(worker, kClose);
  }

  void Close() {
    End();
    Stop();
    std::lock_guard<std::mutex> lock(mutex_);
    Unmap();
  }

  // Writes the words of `hub.HubReport`, then the workers' states and sequence numbers.
  // Never waits for a running call.
  void Report(int64_t* out) {
    std::lock_guard<std::mutex> lock(data_mutex_);
    const int64_t words[] = {record_.kind,    record_.first, record_.second,
                             steps_,          waited_,       clipped_,
                             total_,          used_.exchange(false),
                             token_,          started_,      static_cast<int64_t>(seed_)};
    out = std::copy(std::begin(words), std::end(words), out);
    for (const auto& state : state_) *out++ = state.load();
    for (const auto& sequence : sent_) *out++ = sequence.load();
  }

  void Refused(int64_t* out) {
    std::lock_guard<std::mutex> lock(data_mutex_);
    std::copy(refused_.begin(), refused_.end(), out);
  }

  void Over(uint8_t* out) {
    std::lock_guard<std::mutex> lock(data_mutex_);
    std::copy(over_.begin(), over_.end(), out);
  }

  void Lost(int64_t* out) {
    std::lock_guard<std::mutex> lock(data_mutex_);
    std::copy(lost_.begin(), lost_.end(), out);
  }

 private:
  static Array NextArray(Reader& reader) {
    const int64_t offset = reader.Next();
    return {offset, reader.Next()};
  }

  static ActionLeaf NextAction(Reader& reader) {
    ActionLeaf leaf;
    leaf.kind = static_cast<ActionKind>(reader.Next());
    leaf.dtype = static_cast<ffi::DataType>(reader.Next());
    leaf.offset = reader.Next();
    leaf.width = reader.Next();
    leaf.clips = reader.Next();
    for (int64_t i = 0; i < leaf.width; ++i) {
      if (leaf.kind == kFloatBox) {
        leaf.float_low.push_back(reader.NextFloat());
        leaf.float_high.push_back(reader.NextFloat());
      } else {
        leaf.low.push_back(reader.Next());
        leaf.high.push_back(reader.Next());
      }
    }
    return leaf;
  }

  const Array& Output(int64_t i) const {
    const int64_t count = observation_.size();
    if (i < count) return observation_[i];
    const Array* columns[] = {&reward_, &first_, &terminated_, &truncated_};
    return i < count + 4 ? *columns[i - count] : info_[i - count - 4];
  }

  Word* Line(int64_t index) {
    return reinterpret_cast<Word*>(memory_ + kLine * index);
  }

  template <typename T>
  T* At(int64_t offset) {
    return reinterpret_cast<T*>(memory_ + offset);
  }

  bool Usable() {
    if (ended_ || memory_ == nullptr) used_.store(true);
    return Ok() && memory_ != nullptr;
  }

  int32_t NextToken() {
    const int32_t token = (token_ + 1) & INT32_MAX;
    token_ = token;
    return token;
  }

  void Store(Record record) {
    std::lock_guard<std::mutex> lock(data_mutex_);
    record_ = record;
  }

  bool InOrder(int32_t token) {
    if (token != token_) {
      Store({kStale, token, token_});
    } else if (!started_) {
      Store({kNoReset});
    } else {
      return true;
    }
    return false;
  }

  // Fills `some_` with the group numbers of a program, each once.
  bool Choose(const int32_t* groups, int64_t count) {
    some_.clear();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t group = groups[i];
      const bool known = group >= 0 && group < num_groups_;
      if (!known || std::find(some_.begin(), some_.end(), group) != some_.end()) {
        Store({kGroup, group});
        return false;
      }
      some_.push_back(group);
    }
    return true;
  }

  bool ChooseBusy(const int32_t* groups, int64_t count) {
    if (groups != nullptr) {
      if (!Choose(groups, count)) return false;
    } else {
      some_.clear();
      for (int64_t group : all_)
        if (busy_[group]) some_.push_back(group);
    }
    for (int64_t group : some_)
      if (!busy_[group]) return Store({kIdle, group}), false;
    if (static_cast<int64_t>(some_.size()) < count) return Store({kIdle, -1}), false;
    return true;
  }

  bool AreIdle(const std::vector<int64_t>& groups) {
    for (int64_t group : groups)
      if (busy_[group]) return Store({kBusy, group}), false;
    return true;
  }

  Word* Pending(int64_t group) { return &Line(num_workers_ + group)[kPending]; }

  int64_t FirstWorker(int64_t group) const {
    return group * (num_workers_ / num_groups_);
  }

  // Interrupts a running wait, so that it checks the flags again.
  void Wake() {
    std::lock_guard<std::mutex> lock(map_mutex_);
    if (memory_ == nullptr) return;
    for (int64_t group : all_) {
      Pending(group)->fetch_or(kEvent);
      FutexWake(Pending(group));
    }
  }

  void Unmap() {
    std::lock_guard<std::mutex> lock(map_mutex_);
    if (memory_ != nullptr) munmap(memory_, size_);
    memory_ = nullptr;
  }

  // Writes `rows` failed rows: with their last observations if these are all rows, else
  // with zeros.
  int32_t Fail(void* const* out, int64_t rows) {
    const int64_t count = observation_.size();
    for (int64_t i = 0; i < Outputs(); ++i)
      std::memset(out[i], 0, rows * Output(i).row_bytes);
    for (int64_t i = 0; rows == num_envs_ && i < count; ++i)
      std::memcpy(out[i], last_[i].data(), last_[i].size());
    std::memset(out[count + 1], 1, rows);  // first
    std::memset(out[count + 3], 1, rows);  // truncated
    return NextToken();
  }

  // ---- actions: checked and written leaf by leaf, like ActionWriter ----

  // Writes the actions of rows [first, end), which begin at row `at` of the inputs.
  bool WriteActions(const void* const* in, const ffi::DataType* dtypes, int64_t first,
                    int64_t end, int64_t at) {
    for (size_t i = 0; i < action_.size(); ++i) {
      const ActionLeaf& leaf = action_[i];
      const int64_t skip = at * leaf.width;
      int64_t row = -1;
      if (leaf.kind == kFloatBox) {
        row = WriteFloats(leaf, static_cast<const float*>(in[i]) + skip, first, end);
      } else {
        WithIntegers(dtypes[i], [&](auto from) {
          WithIntegers(leaf.dtype, [&](auto to) {
            using From = decltype(from);
            using To = decltype(to);
            const From* values = static_cast<const From*>(in[i]) + skip;
            row = WriteIntegers<From, To>(leaf, values, first, end);
          });
        });
      }
      if (row >= 0) {
        Store({kAction, row, static_cast<int64_t>(i)});
        return false;
      }
    }
    return true;
  }

  // Returns the first row with an invalid value, or -1.
  int64_t WriteFloats(const ActionLeaf& leaf, const float* in, int64_t first,
                      int64_t end) {
    float* out = At<float>(leaf.offset) + first * leaf.width;
    int64_t clipped = 0, live = 0, wrong = -1;
    for (int64_t row = first; row < end; ++row) {
      live += !over_[row];
      for (int64_t i = 0; i < leaf.width; ++i, ++in, ++out) {
        float value = *in;
        if (leaf.clips) {  // a NaN stays NaN
          if (value < leaf.float_low[i]) value = leaf.float_low[i];
          if (value > leaf.float_high[i]) value = leaf.float_high[i];
        }
        *out = value;
        if (!std::isfinite(value) && wrong < 0) wrong = row;
        clipped += value != *in && !over_[row];
      }
    }
    if (wrong < 0) {
      clipped_ += clipped;
      total_ += live * leaf.width;
    }
    return wrong;
  }

  template <typename From, typename To>
  int64_t WriteIntegers(const ActionLeaf& leaf, const From* in, int64_t first,
                        int64_t end) {
    To* out = At<To>(leaf.offset) + first * leaf.width;
    const From* start = in;
    int64_t live = 0, clipped = 0;
    for (int64_t row = first; row < end; ++row) {
      live += !over_[row];
      for (int64_t i = 0; i < leaf.width; ++i, ++in) {
        int64_t value = Widened(*in);
        if (value < leaf.low[i] || value > leaf.high[i]) {
          if (leaf.kind == kRange) {
            const From* wrong = start + (row - first) * leaf.width;
            std::lock_guard<std::mutex> lock(data_mutex_);
            for (int64_t j = 0; j < leaf.width; ++j)
              refused_[j] = static_cast<int64_t>(wrong[j]);
            return row;
          }
          value = value < leaf.low[i] ? leaf.low[i] : leaf.high[i];
          clipped += !over_[row];
        }
        *out++ = static_cast<To>(value);
      }
    }
    if (leaf.kind == kIntBox) {
      clipped_ += clipped;
      total_ += live * leaf.width;
    }
    return -1;
  }

  // ---- one command: send, wait, collect ----

  // Runs one command for all groups.
  int32_t Run(Command command, void* const* out) {
    const int64_t started = Now();
    if (!AdmitWorkers()) return Fail(out, num_envs_);
    for (int64_t group : all_) Begin(command, group);
    WaitFor(all_, num_groups_);
    waited_ += Now() - started;
    for (int64_t group : all_) Collect(group, out, group * (num_envs_ / num_groups_));
    return NextToken();
  }

  // Discards results that were not received.
  void Drain() {
    some_.clear();
    for (int64_t group : all_)
      if (busy_[group]) some_.push_back(group);
    WaitFor(some_, some_.size());
    for (int64_t group : some_) Collect(group, nullptr, 0);
  }

  // Admits replacements of workers; waits for one if all workers are lost.
  bool AdmitWorkers() {
    if (!replaces_) return true;
    for (;;) {
      Word* pending = Pending(0);
      uint32_t value = pending->load(std::memory_order_acquire);
      if (value & kEvent) value = pending->fetch_and(~kEvent) & ~kEvent;
      int64_t present = 0;
      for (int64_t worker = 0; worker < num_workers_; ++worker) {
        // Until its group is received, its rows belong to the lost worker.
        const int64_t group = worker / (num_workers_ / num_groups_);
        if (!busy_[group] && ready_[worker].exchange(false)) Admit(worker);
        present += !away_[worker];
      }
      if (!Ok() || ended_) return false;
      if (present > 0) return true;
      FutexWait(pending, value, kNever);
    }
  }

  void Admit(int64_t worker) {
    away_[worker] = 0;
    std::lock_guard<std::mutex> lock(data_mutex_);
    std::fill(over_.begin() + first_row_[worker],
              over_.begin() + first_row_[worker + 1], 1);
  }

  void Begin(Command command, int64_t group) {
    const int64_t now = Now();
    const int64_t first = FirstWorker(group), end = FirstWorker(group + 1);
    ++sequence_;
    uint32_t count = 0;
    for (int64_t worker = first; worker < end; ++worker) {
      // A dead worker gets no command, because its replacement would read it.
      state_[worker] = away_[worker] ? kAway : dead_[worker] ? kDead : kWaiting;
      count += state_[worker] == kWaiting;
      const int64_t limit = Limit(command, worker);
      deadline_[worker] = limit < 0 ? kNever : now + limit;
    }
    busy_[group] = 1;
    order_[group] = sequence_;
    command_[group] = command;
    // If an event comes before the wait, its flag remains set.
    Pending(group)->store(count);
    for (int64_t worker = first; worker < end; ++worker)
      if (state_[worker] == kWaiting) SendCommand(worker, command);
  }

  void SendCommand(int64_t worker, Command command) {
    Word* line = Line(worker);
    sent_[worker] = sequence_;
    line[kCommand].store(command, std::memory_order_relaxed);
    line[kCommandSequence].store(sequence_, std::memory_order_release);
    FutexWake(&line[kCommandSequence]);
  }

  // Returns the deadline in ns, negative for never. A step may include a reset.
  int64_t Limit(Command command, int64_t worker) const {
    if (command == kReset) return limits_[0];
    const auto begin = over_.begin() + first_row_[worker];
    const auto end = over_.begin() + first_row_[worker + 1];
    if (std::find(begin, end, 1) == end) return limits_[1];
    return limits_[0] < 0 || limits_[1] < 0 ? -1 : std::max(limits_[0], limits_[1]);
  }

  // Waits for a stop or until `count` of the groups are done: their workers have
  // replied, died or timed out. requests.py does the same.
  void WaitFor(const std::vector<int64_t>& groups, int64_t count) {
    bool graced = false;
    const int64_t patience = poll_ > 0 ? Now() + poll_ : 0;
    for (;;) {
      int64_t done = 0, earliest = kNever;
      bool failed = false;
      sleeps_.clear();
      for (int64_t group : groups) {
        Word* pending = Pending(group);
        uint32_t value = pending->load(std::memory_order_acquire);
        if (value & kEvent) value = pending->fetch_and(~kEvent) & ~kEvent;
        if (UpdateStates(group, &failed)) {
          ++done;
        } else {
          sleeps_.push_back({pending, value});
        }
      }
      // After a request to stop, workers skip their rows but still reply.
      if (stop_ || ended_) return CutShort(groups);
      if (done >= count) return;
      // After a failure, also one that Python recorded, other workers have little time.
      const bool over = failed_ || (failed && !replaces_);
      if (over && !graced) {
        const int64_t grace = Now() + kGrace;
        for (int64_t& deadline : deadline_) deadline = std::min(deadline, grace);
        graced = true;
      }
      // A wake-up may take longer than a step, so poll first and yield the core.
      if (patience > 0 && Now() < patience) {
        sched_yield();
        continue;
      }
      for (int64_t group : groups)
        for (int64_t i = FirstWorker(group); i < FirstWorker(group + 1); ++i)
          if (state_[i] == kWaiting) earliest = std::min(earliest, deadline_[i]);
      if (const int64_t now = Now(); now >= earliest) {
        for (int64_t group : groups) Expire(group, now, over ? kCut : kLate);
        continue;
      }
      FutexWaitAny(sleeps_, earliest);
    }
  }

  // Returns whether all workers of a group are done, and updates their states.
  bool UpdateStates(int64_t group, bool* failed) {
    bool done = true;
    for (int64_t worker = FirstWorker(group); worker < FirstWorker(group + 1);
         ++worker) {
      if (state_[worker] == kWaiting) {
        // Read this flag before the reply: a worker may have replied before it died.
        const bool dead = dead_[worker].load() || ready_[worker].load();
        Word* line = Line(worker);
        if (line[kReplySequence].load(std::memory_order_acquire) == sent_[worker]) {
          const bool fine = line[kStatus].load() != kFailedStatus;
          state_[worker] = fine ? kReplied : kFailed;
        } else if (dead) {
          state_[worker] = kDead;
        } else {
          done = false;
          continue;
        }
      }
      *failed |= state_[worker] != kReplied && state_[worker] != kAway;
    }
    return done;
  }

  bool Done(int64_t group) const {
    for (int64_t i = FirstWorker(group); i < FirstWorker(group + 1); ++i)
      if (state_[i] == kWaiting) return false;
    return true;
  }

  void CutShort(const std::vector<int64_t>& groups) {
    for (int64_t group : groups)
      for (int64_t i = FirstWorker(group); i < FirstWorker(group + 1); ++i)
        if (state_[i] == kWaiting || state_[i] == kReplied) state_[i] = kCut;
  }

  void Expire(int64_t group, int64_t now, State state) {
    for (int64_t i = FirstWorker(group); i < FirstWorker(group + 1); ++i)
      if (state_[i] == kWaiting && deadline_[i] <= now) state_[i] = state;
  }

  // Copies the rows of a group to row `at` of `out`; null discards them.
  void Collect(int64_t group, void* const* out, int64_t at) {
    std::lock_guard<std::mutex> lock(data_mutex_);
    const int64_t rows = num_envs_ / num_groups_, begin = group * rows;
    busy_[group] = 0;
    if (out != nullptr) {
      for (int64_t i = 0; i < Outputs(); ++i) {
        const Array& array = Output(i);
        std::memcpy(static_cast<char*>(out[i]) + at * array.row_bytes,
                    memory_ + array.offset + begin * array.row_bytes,
                    rows * array.row_bytes);
      }
    }
    bool failed = false;
    for (int64_t i = FirstWorker(group); i < FirstWorker(group + 1); ++i) {
      const int state = state_[i];
      failed |= state == kFailed || state == kDead || state == kLate;
      if (out != nullptr) FailLost(i, out, at - begin);
      if (replaces_ && (state == kDead || state == kLate)) MarkLost(i);
    }
    if (out != nullptr) SaveLast(out, begin, rows, at);
    if (failed && !replaces_) {  // the error describes the earlier rows
      record_ = {kWorkers, command_[group]};
      failed_.store(true);
    }
  }

  // Fails the rows of a worker that have no result; output row = row + `shift`.
  void FailLost(int64_t worker, void* const* out, int64_t shift) {
    const int state = state_[worker];
    if (state == kReplied) return;
    const int64_t count = observation_.size();
    uint8_t* first = static_cast<uint8_t*>(out[count + 1]) + shift;
    uint8_t* terminated = static_cast<uint8_t*>(out[count + 2]) + shift;
    uint8_t* truncated = static_cast<uint8_t*>(out[count + 3]) + shift;
    for (int64_t row = first_row_[worker]; row < first_row_[worker + 1]; ++row) {
      if (state == kFailed && !(first[row] && truncated[row])) continue;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t bytes = observation_[i].row_bytes;
        std::memcpy(static_cast<char*>(out[i]) + (row + shift) * bytes,
                    last_[i].data() + row * bytes, bytes);
      }
      static_cast<float*>(out[count])[row + shift] = 0;
      first[row] = truncated[row] = 1;
      terminated[row] = 0;
      ++lost_[row];
    }
  }

  // Marks a worker as lost until Revive announces its replacement.
  void MarkLost(int64_t worker) {
    const bool late = state_[worker] == kLate && !dead_[worker] && !ready_[worker];
    away_[worker] = 1;
    if (!late) return;
    late_[worker].store(true);
    const uint64_t one = 1;
    if (write(attention_, &one, sizeof one) < 0) return;  // full: still readable
  }

  // Saves the last observations of a group; rows of lost workers keep their old ones.
  void SaveLast(void* const* out, int64_t begin, int64_t rows, int64_t at) {
    const int64_t count = observation_.size();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t bytes = observation_[i].row_bytes;
      std::memcpy(last_[i].data() + begin * bytes,
                  static_cast<char*>(out[i]) + at * bytes, rows * bytes);
    }
    if (!replaces_ && failed_) return;
    const uint8_t* terminated = static_cast<uint8_t*>(out[count + 2]) + at;
    const uint8_t* truncated = static_cast<uint8_t*>(out[count + 3]) + at;
    const int64_t first = begin / (num_envs_ / num_groups_);
    for (int64_t i = FirstWorker(first); i < FirstWorker(first + 1); ++i) {
      const int state = state_[i];
      if (state != kReplied && !(replaces_ && state == kFailed)) continue;
      for (int64_t row = first_row_[i]; row < first_row_[i + 1]; ++row)
        over_[row] = terminated[row - begin] | truncated[row - begin];
    }
  }

  // Fixed once open.
  int64_t size_ = 0, num_envs_ = 0, num_workers_ = 0, num_groups_ = 1, poll_ = 0;
  bool replaces_ = false;
  int attention_ = -1;            // descriptor to write to when a worker is late
  int64_t limits_[2] = {-1, -1};  // ns of a reset and of a step
  std::vector<int64_t> first_row_;
  Array reward_, first_, terminated_, truncated_;
  std::vector<Array> info_, observation_;
  std::vector<ActionLeaf> action_;
  std::vector<int64_t> all_;  // groups

  std::mutex mutex_;       // held during a call
  std::mutex data_mutex_;  // guards the report; held only briefly
  std::mutex map_mutex_;   // guards the mapping for threads that wake a call
  char* memory_ = nullptr;

  // Changed by calls, read by reports.
  std::atomic<int32_t> token_{0};
  std::atomic<bool> started_{false};
  std::atomic<uint64_t> seed_{0};
  std::atomic<int64_t> steps_{0}, waited_{0}, clipped_{0}, total_{0};
  std::vector<std::atomic<int>> state_;       // State by worker
  std::vector<std::atomic<uint32_t>> sent_;   // sequence by worker
  Record record_;                             // data_mutex_ guards these four
  std::vector<int64_t> refused_;  // the row of an action that is out of range
  std::vector<uint8_t> over_;
  std::vector<int64_t> lost_;     // failed rows by row, since the start

  // Used by calls only.
  uint32_t sequence_ = 0;
  std::vector<int64_t> deadline_;   // by worker
  std::vector<uint8_t> away_;       // by worker: lost, not yet replaced
  std::vector<uint8_t> busy_;       // by group: sent, not received
  std::vector<uint32_t> order_;     // by group: sequence
  std::vector<Command> command_;    // by group
  std::vector<int64_t> some_;
  std::vector<Sleep> sleeps_;
  std::vector<std::vector<char>> last_;  // last observations

  std::unique_ptr<std::atomic<bool>[]> dead_, late_, ready_;
  std::atomic<bool> stop_{false}, failed_{false}, ended_{false}, used_{false};
};

// ---- the table of hubs ----

std::mutex table_mutex;
std::map<int64_t, std::shared_ptr<Hub>>& Table() {
  static auto* table = new std::map<int64_t, std::shared_ptr<Hub>>;
  return *table;
}
int64_t last_handle = 0;

std::shared_ptr<Hub> Find(int64_t handle) {
  std::lock_guard<std::mutex> lock(table_mutex);
  auto found = Table().find(handle);
  return found == Table().end() ? nullptr : found->second;
}

bool WasOpen(int64_t handle) {
  std::lock_guard<std::mutex> lock(table_mutex);
  return handle > 0 && handle <= last_handle;
}

// ---- custom calls ----

ffi::Error Refusal(const char* code, int64_t handle) {
  return ffi::Error(ffi::ErrorCode::kAborted,
                    "tfab:" + std::string(code) + ":" + std::to_string(handle));
}

// Writes failed rows into the outputs of a program: `before` outputs, `observations`
// arrays, reward, first, terminated, truncated, info.
ffi::Error FailAll(ffi::RemainingRets rets, int64_t before, int64_t observations,
                   int64_t handle) {
  for (size_t i = 0; i < rets.size(); ++i) {
    auto buffer = rets.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) return Refusal("shape", handle);
    const int64_t column = static_cast<int64_t>(i) - observations - before;
    const bool set = column == 1 || column == 3;
    std::memset((*buffer)->untyped_data(), set, (*buffer)->size_bytes());
  }
  return ffi::Error::Success();
}

int32_t* Int32(ffi::RemainingRets rets, size_t i, int64_t* count) {
  if (i >= rets.size()) return nullptr;
  auto buffer = rets.get<ffi::AnyBuffer>(i);
  if (!buffer.has_value()) return nullptr;
  if ((*buffer)->element_type() != ffi::DataType::S32) return nullptr;
  *count = static_cast<int64_t>((*buffer)->element_count());
  return static_cast<int32_t*>((*buffer)->untyped_data());
}

const int32_t* Int32(ffi::RemainingArgs args, size_t i, int64_t* count) {
  if (i >= args.size()) return nullptr;
  auto buffer = args.get<ffi::AnyBuffer>(i);
  if (!buffer.has_value()) return nullptr;
  if (buffer->element_type() != ffi::DataType::S32) return nullptr;
  *count = static_cast<int64_t>(buffer->element_count());
  return static_cast<const int32_t*>(buffer->untyped_data());
}

// Outputs of a call: token, for `receive` group numbers, and rows of `groups` groups.
struct Outputs {
  int32_t* token = nullptr;
  int32_t* found = nullptr;
  int64_t groups = 0;
  void* rows[kMaxBuffers];

  bool Read(const Hub& hub, ffi::RemainingRets rets, bool receives) {
    int64_t count = 0;
    token = Int32(rets, 0, &count);
    if (token == nullptr || count != 1) return false;
    groups = hub.NumGroups();
    if (receives) found = Int32(rets, 1, &groups);
    if (receives && (found == nullptr || groups < 1 || groups > hub.NumGroups()))
      return false;
    const int64_t before = receives ? 2 : 1;
    if (static_cast<int64_t>(rets.size()) != hub.Outputs() + before) return false;
    for (int64_t i = 0; i < hub.Outputs(); ++i) {
      auto buffer = rets.get<ffi::AnyBuffer>(i + before);
      if (!buffer.has_value()) return false;
      const int64_t bytes = (*buffer)->size_bytes();
      if (bytes * hub.NumGroups() != hub.OutputBytes(i) * groups) return false;
      rows[i] = (*buffer)->untyped_data();
    }
    return true;
  }
};

// Actions of `groups` groups, starting at input `before`.
struct Inputs {
  const void* data[kMaxBuffers];
  ffi::DataType dtypes[kMaxBuffers];

  bool Read(const Hub& hub, ffi::RemainingArgs args, int64_t before, int64_t groups) {
    if (static_cast<int64_t>(args.size()) != hub.Inputs() + before) return false;
    for (int64_t i = 0; i < hub.Inputs(); ++i) {
      auto buffer = args.get<ffi::AnyBuffer>(i + before);
      if (!buffer.has_value()) return false;
      data[i] = buffer->untyped_data();
      dtypes[i] = buffer->element_type();
      const bool known = hub.IsFloatInput(i) ? dtypes[i] == ffi::DataType::F32
                                             : WithIntegers(dtypes[i], [](auto) {});
      const auto count = static_cast<int64_t>(buffer->element_count());
      if (!known || count * hub.NumGroups() != hub.InputCount(i) * groups) return false;
    }
    return true;
  }
};

template <typename F>
ffi::Error Guarded(int64_t handle, F&& call) {
  try {
    return call();
  } catch (...) {
    return Refusal("internal", handle);
  }
}

ffi::Error InitCall(ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t handle,
                    int64_t observations) {
  return Guarded(handle, [&] {
    const std::shared_ptr<Hub> hub = Find(handle);
    if (hub == nullptr)
      return WasOpen(handle) ? FailAll(rets, 1, observations, handle)
                             : Refusal("unknown", handle);
    Outputs outputs;
    auto seed = args.get<ffi::AnyBuffer>(0);
    if (!seed.has_value() || seed->size_bytes() != 8 ||
        !outputs.Read(*hub, rets, false))
      return Refusal("shape", handle);
    uint64_t value;
    std::memcpy(&value, seed->untyped_data(), sizeof value);
    *outputs.token = hub->Init(value, outputs.rows);
    return ffi::Error::Success();
  });
}

ffi::Error StepCall(ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t handle,
                    int64_t observations) {
  return Guarded(handle, [&] {
    const std::shared_ptr<Hub> hub = Find(handle);
    if (hub == nullptr)
      return WasOpen(handle) ? FailAll(rets, 1, observations, handle)
                             : Refusal("unknown", handle);
    Outputs outputs;
    Inputs inputs;
    int64_t count = 0;
    const int32_t* token = Int32(args, 0, &count);
    if (token == nullptr || count != 1 || !outputs.Read(*hub, rets, false) ||
        !inputs.Read(*hub, args, 1, hub->NumGroups()))
      return Refusal("shape", handle);
    *outputs.token = hub->Step(*token, inputs.data, inputs.dtypes, outputs.rows);
    return ffi::Error::Success();
  });
}

ffi::Error SendCall(ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t handle) {
  return Guarded(handle, [&] {
    const std::shared_ptr<Hub> hub = Find(handle);
    if (hub == nullptr)
      return WasOpen(handle) ? FailAll(rets, 1, 0, handle) : Refusal("unknown", handle);
    Inputs inputs;
    int64_t count = 0, outputs = 0, groups = 0;
    const int32_t* token = Int32(args, 0, &count);
    const int32_t* chosen = Int32(args, 1, &groups);
    int32_t* next = Int32(rets, 0, &outputs);
    if (token == nullptr || chosen == nullptr || next == nullptr || count != 1 ||
        outputs != 1 || !inputs.Read(*hub, args, 2, groups))
      return Refusal("shape", handle);
    *next = hub->Send(*token, chosen, groups, inputs.data, inputs.dtypes);
    return ffi::Error::Success();
  });
}

// Receives the groups of the second input, or without one the first that are done.
ffi::Error ReceiveCall(ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t handle,
                       int64_t observations) {
  return Guarded(handle, [&] {
    const std::shared_ptr<Hub> hub = Find(handle);
    if (hub == nullptr)
      return WasOpen(handle) ? FailAll(rets, 2, observations, handle)
                             : Refusal("unknown", handle);
    Outputs outputs;
    int64_t count = 0, groups = 0;
    const int32_t* token = Int32(args, 0, &count);
    const int32_t* chosen = args.size() > 1 ? Int32(args, 1, &groups) : nullptr;
    if (token == nullptr || count != 1 || !outputs.Read(*hub, rets, true) ||
        (args.size() > 1 && (chosen == nullptr || groups != outputs.groups)))
      return Refusal("shape", handle);
    *outputs.token =
        hub->Receive(*token, chosen, outputs.groups, outputs.found, outputs.rows);
    return ffi::Error::Success();
  });
}

ffi::Error OkCall(ffi::AnyBuffer token, ffi::Result<ffi::AnyBuffer> ok,
                  int64_t handle) {
  return Guarded(handle, [&] {
    const std::shared_ptr<Hub> hub = Find(handle);
    if (hub == nullptr && !WasOpen(handle)) return Refusal("unknown", handle);
    *static_cast<uint8_t*>(ok->untyped_data()) = hub != nullptr && hub->Ok();
    return ffi::Error::Success();
  });
}

XLA_FFI_DEFINE_HANDLER(kInitHandler, InitCall,
                       ffi::Ffi::Bind()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<int64_t>("handle")
                           .Attr<int64_t>("observations"));
XLA_FFI_DEFINE_HANDLER(kStepHandler, StepCall,
                       ffi::Ffi::Bind()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<int64_t>("handle")
                           .Attr<int64_t>("observations"));
XLA_FFI_DEFINE_HANDLER(
    kSendHandler, SendCall,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<int64_t>("handle"));
XLA_FFI_DEFINE_HANDLER(kReceiveHandler, ReceiveCall,
                       ffi::Ffi::Bind()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<int64_t>("handle")
                           .Attr<int64_t>("observations"));
XLA_FFI_DEFINE_HANDLER(kOkHandler, OkCall,
                       ffi::Ffi::Bind()
                           .Arg<ffi::AnyBuffer>()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<int64_t>("handle"));

std::string Message(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  XLA_FFI_Error_GetMessage_Args get;
  get.struct_size = XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE;
  get.extension_start = nullptr;
  get.error = error;
  api->XLA_FFI_Error_GetMessage(&get);
  const std::string message = get.message;
  XLA_FFI_Error_Destroy_Args destroy;
  destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  destroy.extension_start = nullptr;
  destroy.error = error;
  api->XLA_FFI_Error_Destroy(&destroy);
  return message;
}

}  // namespace

// ---- the interface to Python ----

extern "C" {

int tfab_interface() { return kInterface; }

// Registers the custom calls once per process; returns an error text or null.
const char* tfab_register() {
  static const std::string* problem = [] {
    auto* text = new std::string;
    const XLA_FFI_Api* api = ffi::GetXlaFfiApi();
    const auto& version = api->api_version;
    if (version.major_version != XLA_FFI_API_MAJOR ||
        version.minor_version < XLA_FFI_API_MINOR) {
      *text = "TensorFlow speaks FFI " + std::to_string(version.major_version) + "." +
              std::to_string(version.minor_version) + ", the library " +
              std::to_string(XLA_FFI_API_MAJOR) + "." +
              std::to_string(XLA_FFI_API_MINOR);
      return text;
    }
    const std::pair<const char*, XLA_FFI_Handler*> handlers[] = {
        {"tfab_init", kInitHandler}, {"tfab_step", kStepHandler},
        {"tfab_send", kSendHandler}, {"tfab_receive", kReceiveHandler},
        {"tfab_ok", kOkHandler}};
    for (const auto& [name, handler] : handlers)
      if (auto* error = ffi::Ffi::RegisterStaticHandler(api, name, "Host", handler))
        *text = Message(api, error);
    return text;
  }();
  return problem->empty() ? nullptr : problem->c_str();
}

// Returns a handle, or 0 if the plan or the memory cannot be used.
int64_t tfab_open(int descriptor, const int64_t* plan, int64_t length) try {
  auto hub = std::make_shared<Hub>();
  if (!hub->Open(descriptor, plan, length)) return 0;
  std::lock_guard<std::mutex> lock(table_mutex);
  Table()[++last_handle] = std::move(hub);
  return last_handle;
} catch (...) {
  return 0;
}

int tfab_ok(int64_t handle) {
  auto hub = Find(handle);
  return hub != nullptr && hub->Ok();
}

int tfab_flags(int64_t handle) {
  auto hub = Find(handle);
  return hub == nullptr ? 0 : hub->Flags();
}

void tfab_stop(int64_t handle) {
  if (auto hub = Find(handle)) hub->Stop();
}

void tfab_died(int64_t handle, int64_t worker) {
  if (auto hub = Find(handle)) hub->Died(worker);
}

void tfab_revive(int64_t handle, int64_t worker) {
  if (auto hub = Find(handle)) hub->Revive(worker);
}

void tfab_late(int64_t handle, uint8_t* out) {
  if (auto hub = Find(handle)) hub->Late(out);
}

void tfab_refuse(int64_t handle) {
  if (auto hub = Find(handle)) hub->Refuse();
}

void tfab_end(int64_t handle) {
  if (auto hub = Find(handle)) hub->End();
}

void tfab_poke(int64_t handle) {
  if (auto hub = Find(handle)) hub->Poke();
}

void tfab_report(int64_t handle, int64_t* out) {
  if (auto hub = Find(handle)) hub->Report(out);
}

void tfab_refused(int64_t handle, int64_t* out) {
  if (auto hub = Find(handle)) hub->Refused(out);
}

void tfab_over(int64_t handle, uint8_t* out) {
  if (auto hub = Find(handle)) hub->Over(out);
}

void tfab_lost(int64_t handle, int64_t* out) {
  if (auto hub = Find(handle)) hub->Lost(out);
}

// Unmaps the memory but keeps the last observations.
void tfab_close(int64_t handle) {
  if (auto hub = Find(handle)) hub->Close();
}

// Removes the hub. Later calls with its handle return zeros in failed rows.
void tfab_free(int64_t handle) {
  std::shared_ptr<Hub> hub;
  std::lock_guard<std::mutex> lock(table_mutex);
  auto found = Table().find(handle);
  if (found == Table().end()) return;
  hub = std::move(found->second);
  Table().erase(found);
}

}  // extern "C"
