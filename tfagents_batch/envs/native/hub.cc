// The native hub: worker processes driven from inside XLA programs.
//
// A hub maps a pool's shared memory, checks actions, wakes the workers, waits for
// them and copies their rows out. It is reached as typed XLA FFI custom calls (from
// compiled programs, graphs and eager code) and through a C interface (from Python).
// A call always returns: after a fault, a stop or the end of the pool every row is
// failed, that is first and truncated at once, and `ok` is false. What happened is
// kept as a record, which Python reads and words.
//
// Nothing here takes Python's lock, throws, or allocates once a hub is open.

#include <linux/futex.h>
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
#include <vector>

#include "xla/ffi/api/ffi.h"

// Exported by TensorFlow's library; the header that declares it needs others that
// are not installed.
namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();
}

namespace {

namespace ffi = xla::ffi;
using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free);

constexpr int kInterface = 1;     // of the C functions below
constexpr int kMaxBuffers = 128;  // inputs or outputs of a call
constexpr int64_t kNever = INT64_MAX;
constexpr int64_t kGrace = 1'000'000'000;  // ns for the others once one has failed
constexpr uint32_t kEvent = 1u << 31;      // in kPending: look again
constexpr int64_t kLine = 64;              // bytes

// Words of a worker's line and of the hub's, as in layout.py.
enum WorkerWord { kCommandSequence, kCommand, kReplySequence, kStatus, kStop };
enum HubWord { kPending, kNobody, kSeedLow, kSeedHigh };
// Commands and status as in protocol.py.
enum Command : uint32_t { kReset = 3, kStep = 4, kClose = 5 };
enum Status : uint32_t { kOk = 0, kFailedStatus = 1 };
// The rest is shared with hub.py.
enum Kind { kNothing, kStale, kNoReset, kAction, kWorkers };
enum State { kWaiting, kReplied, kFailed, kDead, kLate, kCut };
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
  int64_t width;  // numbers in a row
  bool clips;
  std::vector<int64_t> low, high;          // width of them
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

  // Reads a plan as hub.py writes it; false if it is none.
  bool Open(int descriptor, const int64_t* plan, int64_t length) {
    Reader reader(plan, length);
    size_ = reader.Next();
    num_envs_ = reader.Next();
    num_workers_ = reader.Next();
    sequence_ = static_cast<uint32_t>(reader.Next());
    limits_[0] = reader.Next();
    limits_[1] = reader.Next();
    spin_ = reader.Next();
    for (int64_t i = 0; i <= num_workers_; ++i) first_row_.push_back(reader.Next());
    for (Array* array : {&reward_, &first_, &terminated_, &truncated_})
      *array = NextArray(reader);
    for (int64_t i = reader.Next(); i > 0; --i) info_.push_back(NextArray(reader));
    for (int64_t i = reader.Next(); i > 0; --i)
      observation_.push_back(NextArray(reader));
    for (int64_t i = reader.Next(); i > 0; --i) action_.push_back(NextAction(reader));
    if (!reader.Complete() || Outputs() > kMaxBuffers || Inputs() > kMaxBuffers)
      return false;
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED,
                        descriptor, 0);
    if (memory == MAP_FAILED) return false;
    memory_ = static_cast<char*>(memory);
    state_.resize(num_workers_, kReplied);
    deadline_.resize(num_workers_);
    dead_ = std::make_unique<std::atomic<bool>[]>(num_workers_);
    over_.resize(num_envs_, 1);
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

  // The three calls. `out` are observation, reward, first, terminated, truncated and
  // info, in shapes checked before. They return the next token.

  int32_t Init(uint64_t seed, void* const* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!Usable()) return Fail(out);
    seed_ = seed;
    started_ = true;
    std::fill(over_.begin(), over_.end(), 1);
    Word* line = Line(num_workers_);
    line[kSeedLow].store(static_cast<uint32_t>(seed));
    line[kSeedHigh].store(static_cast<uint32_t>(seed >> 32));
    return Run(kReset, out);
  }

  // A null token is that of a caller who keeps the order himself.
  int32_t Step(const int32_t* token, const void* const* in,
               const ffi::DataType* dtypes, void* const* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!Usable()) return Fail(out);
    if (token != nullptr && *token != token_) {
      record_ = {kStale, *token, token_};
    } else if (!started_) {
      record_ = {kNoReset};
    } else if (WriteActions(in, dtypes)) {
      ++steps_;
      return Run(kStep, out);
    }
    failed_.store(true);
    return Fail(out);
  }

  bool Ok() const { return !failed_ && !stop_ && !over_pool_; }

  // Bits: there is a record, or Python's own; it was called after its end. Never
  // waits for a call under way.
  int Flags() const { return failed_ | used_ << 1; }

  // From any thread.

  void Stop() {
    stop_.store(true);
    Wake();
  }

  void Died(int64_t worker) {
    if (worker < 0 || worker >= num_workers_) return;
    dead_[worker].store(true);
    Wake();
  }

  // Rows are failed from now on; Python has its own record of why.
  void Refuse() {
    failed_.store(true);
    Wake();
  }

  // The pool is over: later use is noted.
  void End() {
    over_pool_.store(true);
    Wake();
  }

  // Have the workers look at their sockets.
  void Poke() {
    Stop();
    std::lock_guard<std::mutex> lock(mutex_);
    if (memory_ == nullptr) return;
    ++sequence_;
    Send(kClose);
  }

  void Close() {
    End();
    Stop();
    std::lock_guard<std::mutex> lock(mutex_);
    Unmap();
  }

  // Words of `hub.Report`, then one state per worker.
  void Report(int64_t* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    const int64_t words[] = {record_.kind, record_.first, record_.second,
                             sequence_,    steps_,        waited_,
                             clipped_,     total_,        used_.exchange(false),
                             token_,       started_,      static_cast<int64_t>(seed_)};
    out = std::copy(std::begin(words), std::end(words), out);
    std::copy(state_.begin(), state_.end(), out);
  }

  void Refused(int64_t* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::copy(refused_.begin(), refused_.end(), out);
  }

  void Over(uint8_t* out) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::copy(over_.begin(), over_.end(), out);
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
    if (over_pool_ || memory_ == nullptr) used_.store(true);
    return Ok() && memory_ != nullptr;
  }

  int32_t NextToken() { return token_ = (token_ + 1) & INT32_MAX; }

  // Ends a wait that is under way: it looks at the flags again.
  void Wake() {
    std::lock_guard<std::mutex> lock(map_mutex_);
    if (memory_ == nullptr) return;
    Word* pending = &Line(num_workers_)[kPending];
    pending->fetch_or(kEvent);
    FutexWake(pending);
  }

  void Unmap() {
    std::lock_guard<std::mutex> lock(map_mutex_);
    if (memory_ != nullptr) munmap(memory_, size_);
    memory_ = nullptr;
  }

  int32_t Fail(void* const* out) {
    for (int64_t i = 0; i < Outputs(); ++i) std::memset(out[i], 0, OutputBytes(i));
    const int64_t count = observation_.size();
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(out[i], last_[i].data(), last_[i].size());
    std::memset(out[count + 1], 1, num_envs_);  // first
    std::memset(out[count + 3], 1, num_envs_);  // truncated
    return NextToken();
  }

  // ---- actions: checked and written, leaf by leaf, as ActionWriter does ----

  bool WriteActions(const void* const* in, const ffi::DataType* dtypes) {
    for (size_t i = 0; i < action_.size(); ++i) {
      const ActionLeaf& leaf = action_[i];
      int64_t row = -1;
      if (leaf.kind == kFloatBox) {
        row = WriteFloats(leaf, static_cast<const float*>(in[i]));
      } else {
        WithIntegers(dtypes[i], [&](auto from) {
          WithIntegers(leaf.dtype, [&](auto to) {
            using From = decltype(from);
            using To = decltype(to);
            row = WriteIntegers<From, To>(leaf, static_cast<const From*>(in[i]));
          });
        });
      }
      if (row >= 0) {
        record_ = {kAction, row, static_cast<int64_t>(i)};
        return false;
      }
    }
    return true;
  }

  // The first row with a value that is refused, or -1.
  int64_t WriteFloats(const ActionLeaf& leaf, const float* in) {
    float* out = At<float>(leaf.offset);
    int64_t clipped = 0, live = 0, wrong = -1;
    for (int64_t row = 0; row < num_envs_; ++row) {
      live += !over_[row];
      for (int64_t i = 0; i < leaf.width; ++i, ++in, ++out) {
        float value = *in;
        if (leaf.clips) {  // a NaN stays
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
  int64_t WriteIntegers(const ActionLeaf& leaf, const From* in) {
    To* out = At<To>(leaf.offset);
    const From* start = in;
    int64_t live = 0;
    for (int64_t row = 0; row < num_envs_; ++row) {
      live += !over_[row];
      for (int64_t i = 0; i < leaf.width; ++i, ++in) {
        int64_t value = Widened(*in);
        if (value < leaf.low[i] || value > leaf.high[i]) {
          if (leaf.kind == kRange) {
            const From* wrong = start + row * leaf.width;
            for (int64_t j = 0; j < leaf.width; ++j)
              refused_[j] = static_cast<int64_t>(wrong[j]);
            return row;
          }
          value = value < leaf.low[i] ? leaf.low[i] : leaf.high[i];
          clipped_ += !over_[row];
        }
        *out++ = static_cast<To>(value);
      }
    }
    if (leaf.kind == kIntBox) total_ += live * leaf.width;
    return -1;
  }

  // ---- one command: send, wait, collect ----

  int32_t Run(Command command, void* const* out) {
    const int64_t started = Now();
    ++sequence_;
    for (int64_t worker = 0; worker < num_workers_; ++worker) {
      state_[worker] = kWaiting;
      const int64_t limit = Limit(command, worker);
      deadline_[worker] = limit < 0 ? kNever : started + limit;
    }
    // An event that comes between here and the wait stays in its flag.
    Line(num_workers_)[kPending].store(static_cast<uint32_t>(num_workers_));
    Send(command);
    Wait();
    waited_ += Now() - started;
    Collect(command, out);
    return NextToken();
  }

  void Send(Command command) {
    for (int64_t worker = 0; worker < num_workers_; ++worker) {
      Word* line = Line(worker);
      line[kCommand].store(command, std::memory_order_relaxed);
      line[kCommandSequence].store(sequence_, std::memory_order_release);
      FutexWake(&line[kCommandSequence]);
    }
  }

  // Nanoseconds, negative for never. A row that restarts has a reset's time.
  int64_t Limit(Command command, int64_t worker) const {
    if (command == kReset) return limits_[0];
    const auto begin = over_.begin() + first_row_[worker];
    const auto end = over_.begin() + first_row_[worker + 1];
    if (std::find(begin, end, 1) == end) return limits_[1];
    return limits_[0] < 0 || limits_[1] < 0 ? -1 : std::max(limits_[0], limits_[1]);
  }

  // Until all have replied, died or are late, or a stop: as crew.py's.
  void Wait() {
    Word* pending = &Line(num_workers_)[kPending];
    bool failed = false, graced = false;
    for (int64_t spins = spin_;;) {
      uint32_t value = pending->load(std::memory_order_acquire);
      if (value & kEvent) value = pending->fetch_and(~kEvent) & ~kEvent;
      int64_t waiting = 0, earliest = kNever;
      for (int64_t worker = 0; worker < num_workers_; ++worker) {
        if (state_[worker] != kWaiting) continue;
        // A flag of death is read before the reply it may have come after.
        const bool dead = dead_[worker].load();
        Word* line = Line(worker);
        if (line[kReplySequence].load(std::memory_order_acquire) == sequence_) {
          const bool fine = line[kStatus].load() != kFailedStatus;
          state_[worker] = fine ? kReplied : kFailed;
        } else if (dead) {
          state_[worker] = kDead;
        } else {
          ++waiting;
          continue;
        }
        failed |= state_[worker] != kReplied;
      }
      // Once asked to stop, workers leave rows alone and reply all the same.
      if (stop_ || over_pool_) return Give(kCut, kReplied);
      if (waiting == 0) return;
      if (failed && !graced) {
        const int64_t grace = Now() + kGrace;
        for (int64_t& deadline : deadline_) deadline = std::min(deadline, grace);
        graced = true;
      }
      for (int64_t worker = 0; worker < num_workers_; ++worker)
        if (state_[worker] == kWaiting)
          earliest = std::min(earliest, deadline_[worker]);
      if (spins > 0) {
        --spins;
        Pause();
        continue;
      }
      if (earliest != kNever && Now() >= earliest)
        return Give(failed ? kCut : kLate);
      FutexWait(pending, value, earliest);
    }
  }

  // `state` to all workers that are waited for, or in state `other`.
  void Give(State state, State other = kWaiting) {
    for (State& each : state_)
      if (each == kWaiting || each == other) each = state;
  }

  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  void Collect(Command command, void* const* out) {
    for (int64_t i = 0; i < Outputs(); ++i)
      std::memcpy(out[i], memory_ + Output(i).offset, OutputBytes(i));
    const int64_t count = observation_.size();
    uint8_t* first = static_cast<uint8_t*>(out[count + 1]);
    uint8_t* terminated = static_cast<uint8_t*>(out[count + 2]);
    uint8_t* truncated = static_cast<uint8_t*>(out[count + 3]);
    bool failed = false;
    for (int64_t worker = 0; worker < num_workers_; ++worker) {
      const State state = state_[worker];
      if (state == kReplied) continue;
      failed |= state != kCut;
      for (int64_t row = first_row_[worker]; row < first_row_[worker + 1]; ++row) {
        if (state == kFailed && !(first[row] && truncated[row])) continue;
        for (int64_t i = 0; i < count; ++i) {
          const int64_t bytes = observation_[i].row_bytes;
          std::memcpy(static_cast<char*>(out[i]) + row * bytes,
                      last_[i].data() + row * bytes, bytes);
        }
        static_cast<float*>(out[count])[row] = 0;
        first[row] = truncated[row] = 1;
        terminated[row] = 0;
      }
    }
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(last_[i].data(), out[i], last_[i].size());
    if (failed) {  // what was the case before is needed to tell of it
      record_ = {kWorkers, command};
      failed_.store(true);
      return;
    }
    for (int64_t row = 0; row < num_envs_; ++row)
      over_[row] = terminated[row] | truncated[row];
  }

  // Fixed once open.
  int64_t size_ = 0, num_envs_ = 0, num_workers_ = 0, spin_ = 0;
  int64_t limits_[2] = {-1, -1};  // ns of a reset and of a step
  std::vector<int64_t> first_row_;
  Array reward_, first_, terminated_, truncated_;
  std::vector<Array> info_, observation_;
  std::vector<ActionLeaf> action_;

  std::mutex mutex_;      // of a call
  std::mutex map_mutex_;  // of the mapping, for those who wake a call
  char* memory_ = nullptr;
  uint32_t sequence_ = 0;
  int32_t token_ = 0;
  bool started_ = false;
  uint64_t seed_ = 0;
  int64_t steps_ = 0, waited_ = 0, clipped_ = 0, total_ = 0;
  Record record_;
  std::vector<int64_t> refused_;  // the row of an action that is out of range
  std::vector<State> state_;
  std::vector<int64_t> deadline_;
  std::vector<uint8_t> over_;
  std::vector<std::vector<char>> last_;  // last observations
  std::unique_ptr<std::atomic<bool>[]> dead_;
  std::atomic<bool> stop_{false}, failed_{false}, over_pool_{false}, used_{false};
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

// All rows failed, by what the program says of its outputs: token, `observations`
// arrays, reward, first, terminated, truncated, info.
ffi::Error FailAll(ffi::RemainingRets rets, int64_t observations, int64_t handle) {
  for (size_t i = 0; i < rets.size(); ++i) {
    auto buffer = rets.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) return Refusal("shape", handle);
    const int64_t column = static_cast<int64_t>(i) - observations - 1;
    const bool set = column == 1 || column == 3;
    std::memset((*buffer)->untyped_data(), set, (*buffer)->size_bytes());
  }
  return ffi::Error::Success();
}

struct Outputs {
  int32_t* token = nullptr;
  void* rows[kMaxBuffers];

  bool Read(const Hub& hub, ffi::RemainingRets rets) {
    if (static_cast<int64_t>(rets.size()) != hub.Outputs() + 1) return false;
    for (size_t i = 0; i < rets.size(); ++i) {
      auto buffer = rets.get<ffi::AnyBuffer>(i);
      if (!buffer.has_value()) return false;
      void* data = (*buffer)->untyped_data();
      const int64_t bytes = (*buffer)->size_bytes();
      if (i == 0) {
        if (bytes != 4) return false;
        token = static_cast<int32_t*>(data);
      } else {
        if (bytes != hub.OutputBytes(i - 1)) return false;
        rows[i - 1] = data;
      }
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
      return WasOpen(handle) ? FailAll(rets, observations, handle)
                             : Refusal("unknown", handle);
    Outputs outputs;
    auto seed = args.get<ffi::AnyBuffer>(0);
    if (!seed.has_value() || seed->size_bytes() != 8 || !outputs.Read(*hub, rets))
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
      return WasOpen(handle) ? FailAll(rets, observations, handle)
                             : Refusal("unknown", handle);
    Outputs outputs;
    if (static_cast<int64_t>(args.size()) != hub->Inputs() + 1 ||
        !outputs.Read(*hub, rets))
      return Refusal("shape", handle);
    auto token = args.get<ffi::AnyBuffer>(0);
    if (!token.has_value() || token->size_bytes() != 4)
      return Refusal("shape", handle);
    const void* in[kMaxBuffers];
    ffi::DataType dtypes[kMaxBuffers];
    for (int64_t i = 0; i < hub->Inputs(); ++i) {
      auto buffer = args.get<ffi::AnyBuffer>(i + 1);
      if (!buffer.has_value()) return Refusal("shape", handle);
      in[i] = buffer->untyped_data();
      dtypes[i] = buffer->element_type();
      const bool known = hub->IsFloatInput(i)
                             ? dtypes[i] == ffi::DataType::F32
                             : WithIntegers(dtypes[i], [](auto) {});
      if (!known ||
          static_cast<int64_t>(buffer->element_count()) != hub->InputCount(i))
        return Refusal("shape", handle);
    }
    *outputs.token = hub->Step(static_cast<const int32_t*>(token->untyped_data()), in,
                               dtypes, outputs.rows);
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

// Registers the custom calls, once a process; a text that says why not, or null.
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
        {"tfab_ok", kOkHandler}};
    for (const auto& [name, handler] : handlers)
      if (auto* error = ffi::Ffi::RegisterStaticHandler(api, name, "Host", handler))
        *text = Message(api, error);
    return text;
  }();
  return problem->empty() ? nullptr : problem->c_str();
}

// A handle, or 0 if the plan or the memory cannot be used.
int64_t tfab_open(int descriptor, const int64_t* plan, int64_t length) try {
  auto hub = std::make_shared<Hub>();
  if (!hub->Open(descriptor, plan, length)) return 0;
  std::lock_guard<std::mutex> lock(table_mutex);
  Table()[++last_handle] = std::move(hub);
  return last_handle;
} catch (...) {
  return 0;
}

void tfab_init(int64_t handle, uint64_t seed, void* const* out) {
  if (auto hub = Find(handle)) hub->Init(seed, out);
}

void tfab_step(int64_t handle, const void* const* in, const int32_t* dtypes,
               void* const* out) {
  ffi::DataType types[kMaxBuffers];
  auto hub = Find(handle);
  if (hub == nullptr) return;
  for (int64_t i = 0; i < hub->Inputs(); ++i)
    types[i] = static_cast<ffi::DataType>(dtypes[i]);
  hub->Step(nullptr, in, types, out);
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

// Unmaps the memory; the last observations stay.
void tfab_close(int64_t handle) {
  if (auto hub = Find(handle)) hub->Close();
}

// Forgets the hub. Calls with its handle give zeros in failed rows.
void tfab_free(int64_t handle) {
  std::shared_ptr<Hub> hub;
  std::lock_guard<std::mutex> lock(table_mutex);
  auto found = Table().find(handle);
  if (found == Table().end()) return;
  hub = std::move(found->second);
  Table().erase(found);
}

}  // extern "C"
