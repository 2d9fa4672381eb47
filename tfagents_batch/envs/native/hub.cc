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
// Nothing here takes Python's lock, throws, or allocates once a hub is open, except for
// the copies of a program on a GPU, see cuda.h.

#include "hub.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

namespace tfab {
namespace {

constexpr int64_t kGrace = 1'000'000'000;  // ns for other workers after a failure

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

Array NextArray(Reader& reader) {
  const int64_t offset = reader.Next();
  return {offset, reader.Next()};
}

ActionLeaf NextAction(Reader& reader) {
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

template <typename T>
int64_t Widened(T value) {
  if constexpr (std::is_same_v<T, uint64_t>)
    return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
  return static_cast<int64_t>(value);
}

}  // namespace

bool Hub::Open(int descriptor, const int64_t* plan, int64_t length) {
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
  if (!reader.Complete() || Outputs() + 2 > kMaxBuffers || Inputs() + 2 > kMaxBuffers)
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
  for (const Array& array : observation_)
    last_.emplace_back(num_envs_ * array.row_bytes);
  int64_t widest = 1;
  for (const ActionLeaf& leaf : action_) widest = std::max(widest, leaf.width);
  refused_.resize(widest);
  return true;
}

int32_t Hub::Init(uint64_t seed, void** out, bool in_place) {
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
  return Run(kReset, out, in_place);
}

int32_t Hub::Step(int32_t token, const void* const* in,
                  const ffi::DataType* dtypes, void** out, bool in_place) {
  if (!Usable()) return Fail(out, num_envs_);
  if (!InOrder(token) || !AreIdle(all_) ||
      !WriteActions(in, dtypes, 0, num_envs_, 0)) {
    failed_.store(true);
    return Fail(out, num_envs_);
  }
  ++steps_;
  return Run(kStep, out, in_place);
}

int32_t Hub::Send(int32_t token, const int32_t* groups, int64_t count,
                  const void* const* in, const ffi::DataType* dtypes) {
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

int32_t Hub::Receive(int32_t token, const int32_t* groups, int64_t count,
                     int32_t* found, void** out, bool in_place) {
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
  if (in_place) LeaveInPlace(some_, count, out);
  for (int64_t i = 0; i < count; ++i) {
    found[i] = static_cast<int32_t>(some_[i]);
    Collect(some_[i], out, i * rows);
  }
  return NextToken();
}

GpuCopies& Hub::Copies(Stream stream) {
  if (copies_ == nullptr)
    copies_ = std::make_unique<GpuCopies>(TheDriver(), memory_, size_, stream);
  return *copies_;
}

void Hub::Stop() {
  stop_.store(true);
  Wake();
}

void Hub::Died(int64_t worker) {
  dead_[worker].store(true);
  Wake();
}

void Hub::Revive(int64_t worker) {
  ready_[worker].store(true);  // later failures belong to the new worker
  dead_[worker].store(false);
  Wake();
}

void Hub::Late(uint8_t* out) {
  for (int64_t worker = 0; worker < num_workers_; ++worker)
    out[worker] = late_[worker].exchange(false);
}

void Hub::Refuse() {
  failed_.store(true);
  Wake();
}

void Hub::End() {
  ended_.store(true);
  Wake();
}

void Hub::Poke() {
  Stop();
  std::lock_guard<std::mutex> lock(mutex_);
  if (memory_ == nullptr) return;
  ++sequence_;
  for (int64_t worker = 0; worker < num_workers_; ++worker)
    SendCommand(worker, kClose);
}

void Hub::Close() {
  End();
  Stop();
  std::lock_guard<std::mutex> lock(mutex_);
  Unmap();
}

void Hub::Report(int64_t* out) {
  std::lock_guard<std::mutex> lock(data_mutex_);
  const int64_t words[] = {record_.kind,    record_.first, record_.second,
                           steps_,          waited_,       clipped_,
                           total_,          started_,      static_cast<int64_t>(seed_)};
  out = std::copy(std::begin(words), std::end(words), out);
  for (const auto& state : state_) *out++ = state.load();
  for (const auto& sequence : sent_) *out++ = sequence.load();
  out = std::copy(refused_.begin(), refused_.end(), out);
  out = std::copy(over_.begin(), over_.end(), out);
  std::copy(lost_.begin(), lost_.end(), out);
}

const Array& Hub::Output(int64_t i) const {
  const int64_t count = observation_.size();
  if (i < count) return observation_[i];
  const Array* columns[] = {&reward_, &first_, &terminated_, &truncated_};
  return i < count + 4 ? *columns[i - count] : info_[i - count - 4];
}

bool Hub::Usable() {
  if (ended_ || memory_ == nullptr) used_.store(true);
  return Ok() && memory_ != nullptr;
}

int32_t Hub::NextToken() {
  const int32_t token = (token_ + 1) & INT32_MAX;
  token_ = token;
  return token;
}

void Hub::Store(Record record) {
  std::lock_guard<std::mutex> lock(data_mutex_);
  record_ = record;
}

bool Hub::InOrder(int32_t token) {
  if (token != token_) {
    Store({kStale, token, token_});
  } else if (!started_) {
    Store({kNoReset});
  } else {
    return true;
  }
  return false;
}

bool Hub::Choose(const int32_t* groups, int64_t count) {
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

bool Hub::ChooseBusy(const int32_t* groups, int64_t count) {
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

bool Hub::AreIdle(const std::vector<int64_t>& groups) {
  for (int64_t group : groups)
    if (busy_[group]) return Store({kBusy, group}), false;
  return true;
}

void Hub::Wake() {
  std::lock_guard<std::mutex> lock(map_mutex_);
  if (memory_ == nullptr) return;
  for (int64_t group : all_) {
    Pending(group)->fetch_or(kEvent);
    FutexWake(Pending(group));
  }
}

void Hub::Unmap() {
  if (copies_ != nullptr) copies_->Unregister();
  std::lock_guard<std::mutex> lock(map_mutex_);
  if (memory_ != nullptr) munmap(memory_, size_);
  memory_ = nullptr;
}

int32_t Hub::Fail(void* const* out, int64_t rows) {
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

bool Hub::WriteActions(const void* const* in, const ffi::DataType* dtypes,
                       int64_t first, int64_t end, int64_t at) {
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

int64_t Hub::WriteFloats(const ActionLeaf& leaf, const float* in, int64_t first,
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
int64_t Hub::WriteIntegers(const ActionLeaf& leaf, const From* in, int64_t first,
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

int32_t Hub::Run(Command command, void** out, bool in_place) {
  const int64_t started = Now();
  if (!AdmitWorkers()) return Fail(out, num_envs_);
  for (int64_t group : all_) Begin(command, group);
  WaitFor(all_, num_groups_);
  waited_ += Now() - started;
  if (in_place) LeaveInPlace(all_, num_groups_, out);
  for (int64_t group : all_) Collect(group, out, group * (num_envs_ / num_groups_));
  return NextToken();
}

void Hub::Drain() {
  some_.clear();
  for (int64_t group : all_)
    if (busy_[group]) some_.push_back(group);
  WaitFor(some_, some_.size());
  for (int64_t group : some_) Collect(group, nullptr, 0);
}

bool Hub::AdmitWorkers() {
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

void Hub::Admit(int64_t worker) {
  away_[worker] = 0;
  std::lock_guard<std::mutex> lock(data_mutex_);
  std::fill(over_.begin() + first_row_[worker],
            over_.begin() + first_row_[worker + 1], 1);
}

void Hub::Begin(Command command, int64_t group) {
  if (copies_ != nullptr) copies_->Settle();  // workers are about to write rows
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

void Hub::SendCommand(int64_t worker, Command command) {
  Word* line = Line(worker);
  sent_[worker] = sequence_;
  line[kCommand].store(command, std::memory_order_relaxed);
  line[kCommandSequence].store(sequence_, std::memory_order_release);
  FutexWake(&line[kCommandSequence]);
}

int64_t Hub::Limit(Command command, int64_t worker) const {
  if (command == kReset) return limits_[0];
  const auto begin = over_.begin() + first_row_[worker];
  const auto end = over_.begin() + first_row_[worker + 1];
  if (std::find(begin, end, 1) == end) return limits_[1];
  return limits_[0] < 0 || limits_[1] < 0 ? -1 : std::max(limits_[0], limits_[1]);
}

void Hub::WaitFor(const std::vector<int64_t>& groups, int64_t count) {
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

bool Hub::UpdateStates(int64_t group, bool* failed) {
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

bool Hub::Done(int64_t group) const {
  for (int64_t i = FirstWorker(group); i < FirstWorker(group + 1); ++i)
    if (state_[i] == kWaiting) return false;
  return true;
}

void Hub::CutShort(const std::vector<int64_t>& groups) {
  for (int64_t group : groups)
    for (int64_t i = FirstWorker(group); i < FirstWorker(group + 1); ++i)
      if (state_[i] == kWaiting || state_[i] == kReplied) state_[i] = kCut;
}

void Hub::Expire(int64_t group, int64_t now, State state) {
  for (int64_t i = FirstWorker(group); i < FirstWorker(group + 1); ++i)
    if (state_[i] == kWaiting && deadline_[i] <= now) state_[i] = state;
}

void Hub::LeaveInPlace(const std::vector<int64_t>& groups, int64_t count,
                       void** out) {
  for (int64_t i = 0; i < count; ++i) {
    if (groups[i] != groups[0] + i) return;
    for (int64_t j = FirstWorker(groups[i]); j < FirstWorker(groups[i] + 1); ++j)
      if (state_[j] != kReplied) return;
  }
  const int64_t begin = groups[0] * (num_envs_ / num_groups_);
  for (int64_t i = 0; i < Outputs(); ++i)
    out[i] = memory_ + Output(i).offset + begin * Output(i).row_bytes;
}

void Hub::Collect(int64_t group, void* const* out, int64_t at) {
  std::lock_guard<std::mutex> lock(data_mutex_);
  const int64_t rows = num_envs_ / num_groups_, begin = group * rows;
  busy_[group] = 0;
  if (out != nullptr) {
    for (int64_t i = 0; i < Outputs(); ++i) {
      const Array& array = Output(i);
      char* to = static_cast<char*>(out[i]) + at * array.row_bytes;
      const char* from = memory_ + array.offset + begin * array.row_bytes;
      if (to != from) std::memcpy(to, from, rows * array.row_bytes);
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

void Hub::FailLost(int64_t worker, void* const* out, int64_t shift) {
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

void Hub::MarkLost(int64_t worker) {
  const bool late = state_[worker] == kLate && !dead_[worker] && !ready_[worker];
  away_[worker] = 1;
  if (!late) return;
  late_[worker].store(true);
  const uint64_t one = 1;
  if (write(attention_, &one, sizeof one) < 0) return;  // full: still readable
}

void Hub::SaveLast(void* const* out, int64_t begin, int64_t rows, int64_t at) {
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

// ---- the table of hubs ----

namespace {

std::mutex table_mutex;
std::map<int64_t, std::shared_ptr<Hub>>& Table() {
  static auto* table = new std::map<int64_t, std::shared_ptr<Hub>>;
  return *table;
}
int64_t last_handle = 0;

}  // namespace

std::shared_ptr<Hub> Find(int64_t handle) {
  std::lock_guard<std::mutex> lock(table_mutex);
  auto found = Table().find(handle);
  return found == Table().end() ? nullptr : found->second;
}

int64_t Insert(std::shared_ptr<Hub> hub) {
  std::lock_guard<std::mutex> lock(table_mutex);
  Table()[++last_handle] = std::move(hub);
  return last_handle;
}

void Remove(int64_t handle) {
  std::shared_ptr<Hub> hub;  // destroyed after the lock is released
  std::lock_guard<std::mutex> lock(table_mutex);
  auto found = Table().find(handle);
  if (found == Table().end()) return;
  hub = std::move(found->second);
  Table().erase(found);
}

}  // namespace tfab
