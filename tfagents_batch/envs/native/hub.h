// The hub of a pool, see hub.cc. Enumerations and constants must agree with Python.

#ifndef TFAGENTS_BATCH_HUB_H_
#define TFAGENTS_BATCH_HUB_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "buffers.h"
#include "cuda.h"
#include "futex.h"

// Hidden names: calls within the library need no table, and can be inlined.
namespace tfab __attribute__((visibility("hidden"))) {

constexpr int64_t kLine = 64;     // bytes

// Flag in kPending: check again. It is not the sign bit, because a late reply can make
// the next command's count negative, which only wakes the hub more often.
constexpr uint32_t kEvent = 1u << 30;

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

class Hub {
 public:
  ~Hub() { Unmap(); }

  // Reads a plan that hub.py wrote; false if it is invalid.
  bool Open(int descriptor, const int64_t* plan, int64_t length);
  int64_t Outputs() const { return observation_.size() + 4 + info_.size(); }
  int64_t Inputs() const { return action_.size(); }
  int64_t InputCount(int64_t i) const { return num_envs_ * action_[i].width; }
  int64_t OutputBytes(int64_t i) const { return num_envs_ * Output(i).row_bytes; }
  bool IsFloatInput(int64_t i) const { return action_[i].kind == kFloatBox; }
  int64_t NumGroups() const { return num_groups_; }

  // The calls. The caller holds the lock. `out` are observation, reward, first,
  // terminated, truncated and info; their shapes were checked. With `in_place`, a call
  // may set `out` to the rows in shared memory instead of copying them. They stay there
  // until the next command. Calls return the next token.

  std::unique_lock<std::mutex> Lock() { return std::unique_lock<std::mutex>(mutex_); }
  int32_t Init(uint64_t seed, void** out, bool in_place);
  int32_t Step(int32_t token, const void* const* in,
               const ffi::DataType* dtypes, void** out, bool in_place);

  // Starts a step of groups; `in` holds their rows, group after group.
  int32_t Send(int32_t token, const int32_t* groups, int64_t count,
               const void* const* in, const ffi::DataType* dtypes);

  // Waits for groups, or with `groups` null for the first `count` that are done. `out`
  // has their rows, group after group, and `found` their indices.
  int32_t Receive(int32_t token, const int32_t* groups, int64_t count,
                  int32_t* found, void** out, bool in_place);

  // Returns the copies to and from a GPU, for callers that hold the lock. Throws
  // CudaError.
  GpuCopies& Copies(Stream stream);
  bool Ok() const { return !failed_ && !stop_ && !ended_; }

  // Whether a failure was recorded, here or by Python.
  bool Failed() const { return failed_; }

  // Whether a call came after the end, since the last question.
  bool TakeUsed() { return used_.exchange(false); }

  // May be called from any thread.

  void Stop();
  void Died(int64_t worker);

  // A new process has replaced a lost worker.
  void Revive(int64_t worker);

  // Workers that timed out; each is reported once.
  void Late(uint8_t* out);

  // Fails all rows from now on; Python has recorded the reason.
  void Refuse();

  // Ends the pool; later calls are recorded.
  void End();

  // Makes the workers check their sockets.
  void Poke();
  void Close();

  // Writes the numbers of `hub.HubReport`. Never waits for a running call.
  void Report(int64_t* out);

 private:
  const Array& Output(int64_t i) const;
  Word* Line(int64_t index) {
    return reinterpret_cast<Word*>(memory_ + kLine * index);
  }

  template <typename T>
  T* At(int64_t offset) {
    return reinterpret_cast<T*>(memory_ + offset);
  }

  bool Usable();
  int32_t NextToken();
  void Store(Record record);
  bool InOrder(int32_t token);

  // Fills `some_` with the group numbers of a program, each once.
  bool Choose(const int32_t* groups, int64_t count);
  bool ChooseBusy(const int32_t* groups, int64_t count);
  bool AreIdle(const std::vector<int64_t>& groups);
  Word* Pending(int64_t group) { return &Line(num_workers_ + group)[kPending]; }

  int64_t FirstWorker(int64_t group) const {
    return group * (num_workers_ / num_groups_);
  }

  // Interrupts a running wait, so that it checks the flags again.
  void Wake();
  void Unmap();

  // Writes `rows` failed rows: with their last observations if these are all rows, else
  // with zeros.
  int32_t Fail(void* const* out, int64_t rows);

  // ---- actions: checked and written leaf by leaf, like ActionWriter ----

  // Writes the actions of rows [first, end), which begin at row `at` of the inputs.
  bool WriteActions(const void* const* in, const ffi::DataType* dtypes, int64_t first,
                    int64_t end, int64_t at);

  // Returns the first row with an invalid value, or -1.
  int64_t WriteFloats(const ActionLeaf& leaf, const float* in, int64_t first,
                      int64_t end);
  template <typename From, typename To>
  int64_t WriteIntegers(const ActionLeaf& leaf, const From* in, int64_t first,
                        int64_t end);

  // ---- one command: send, wait, collect ----

  // Runs one command for all groups.
  int32_t Run(Command command, void** out, bool in_place);

  // Discards results that were not received.
  void Drain();

  // Admits replacements of workers; waits for one if all workers are lost.
  bool AdmitWorkers();
  void Admit(int64_t worker);
  void Begin(Command command, int64_t group);
  void SendCommand(int64_t worker, Command command);

  // Returns the deadline in ns, negative for never. A step may include a reset.
  int64_t Limit(Command command, int64_t worker) const;

  // Waits for a stop or until `count` of the groups are done: their workers have
  // replied, died or timed out. workers.py does the same.
  void WaitFor(const std::vector<int64_t>& groups, int64_t count);

  // Returns whether all workers of a group are done, and updates their states.
  bool UpdateStates(int64_t group, bool* failed);
  bool Done(int64_t group) const;
  void CutShort(const std::vector<int64_t>& groups);
  void Expire(int64_t group, int64_t now, State state);

  // Sets `out` to rows of the first `count` groups in shared memory, if these groups
  // are neighbors and all their workers have replied: another worker may still write.
  void LeaveInPlace(const std::vector<int64_t>& groups, int64_t count, void** out);

  // Copies the rows of a group to row `at` of `out`; null discards them.
  void Collect(int64_t group, void* const* out, int64_t at);

  // Fails the rows of a worker that have no result; output row = row + `shift`.
  void FailLost(int64_t worker, void* const* out, int64_t shift);

  // Marks a worker as lost until Revive announces its replacement.
  void MarkLost(int64_t worker);

  // Saves the last observations of a group; rows of lost workers keep their old ones.
  void SaveLast(void* const* out, int64_t begin, int64_t rows, int64_t at);

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
  std::unique_ptr<GpuCopies> copies_;    // null until a GPU calls

  std::unique_ptr<std::atomic<bool>[]> dead_, late_, ready_;
  std::atomic<bool> stop_{false}, failed_{false}, ended_{false}, used_{false};
};

std::shared_ptr<Hub> Find(int64_t handle);
int64_t Insert(std::shared_ptr<Hub> hub);  // returns a new handle
void Remove(int64_t handle);

// Registers the custom calls once per process; returns an error text or null.
const char* RegisterCalls();

// Returns the handler of a custom call for platform "CUDA"; null if there is none.
XLA_FFI_Handler* HandlerOnGpu(const char* name);

}  // namespace tfab

#endif  // TFAGENTS_BATCH_HUB_H_
