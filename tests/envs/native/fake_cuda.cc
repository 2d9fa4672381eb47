// A CUDA driver without a GPU, and calls of the hub's handlers as XLA makes them.
//
// Memory of this GPU is memory of the process at addresses that nobody else can read.
// Copies are queued, and run as late as the driver allows: when somebody waits for
// their stream or for a later event. Until then the target of a copy to the host has
// other bytes. So a missing wait, or a change of what a copy still reads, changes the
// results. What a driver would refuse, or forgive by chance, is counted as a violation.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();  // as in calls.cc
}

namespace {

constexpr uint64_t kOnGpu = 1ull << 62;  // added to addresses; no process has such ones

struct Copy {
  char* to;
  const char* from;  // null: `value` repeated
  uint64_t bytes;
  uint32_t value;
  uint64_t width;  // of the value
};

struct Stream {
  std::vector<Copy> queue;
  size_t done = 0;
};

struct Event {
  void* context;
  uintptr_t stream = 0;
  size_t until = 0;
};

// Ten streams belong to a GPU, which has one context.
void* ContextOf(uintptr_t stream) { return reinterpret_cast<void*>(stream / 10 + 1); }

struct State {
  std::map<uintptr_t, Stream> streams;
  std::map<const char*, uint64_t> registered, pinned;
  int64_t events = 0, violations = 0, from_registered = 0, from_pinned = 0;
  std::map<std::string, int64_t> calls, failures;
};

std::recursive_mutex mutex;
State state;
thread_local std::vector<void*> contexts;

// Counts a call of a function; returns the code with which it has to fail, or 0.
int Count(const char* name) {
  ++state.calls[name];
  if (contexts.empty()) return ++state.violations, 201;
  auto failure = state.failures.find(name);
  return failure == state.failures.end() ? 0 : static_cast<int>(failure->second);
}

#define BEGIN()                                      \
  std::lock_guard<std::recursive_mutex> lock(mutex); \
  if (int code = Count(__func__)) return code

char* Memory(uint64_t pointer) {
  if (!(pointer & kOnGpu)) ++state.violations;
  return reinterpret_cast<char*>(pointer & ~kOnGpu);
}

void Run(uintptr_t stream, size_t until) {
  Stream& queue = state.streams[stream];
  for (; queue.done < until; ++queue.done) {
    const Copy& copy = queue.queue[queue.done];
    if (copy.from != nullptr) std::memmove(copy.to, copy.from, copy.bytes);
    for (uint64_t i = 0; copy.from == nullptr && i < copy.bytes; i += copy.width)
      std::memcpy(copy.to + i, &copy.value, copy.width);
  }
}

// Whether a range of host memory is inside of one of `ranges`.
bool Inside(const std::map<const char*, uint64_t>& ranges, const void* at,
            uint64_t bytes) {
  const char* begin = static_cast<const char*>(at);
  for (const auto& [start, size] : ranges)
    if (begin >= start && begin + bytes <= start + size) return true;
  return false;
}

// Whether a copy that has not run uses a range of host memory.
bool InUse(const void* range, uint64_t size) {
  const char* start = static_cast<const char*>(range);
  for (const auto& [_, stream] : state.streams)
    for (size_t i = stream.done; i < stream.queue.size(); ++i) {
      const Copy& copy = stream.queue[i];
      for (const char* at : {copy.from, static_cast<const char*>(copy.to)})
        if (at < start + size && start < at + copy.bytes) return true;
    }
  return false;
}

int Forget(std::map<const char*, uint64_t>& ranges, void* pointer) {
  auto found = ranges.find(static_cast<const char*>(pointer));
  if (found == ranges.end()) return ++state.violations, 1;
  state.violations += InUse(found->first, found->second);
  ranges.erase(found);
  return 0;
}

}  // namespace

extern "C" {

// ---- the driver ----

int cuGetErrorName(int code, const char** name) {
  *name = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : nullptr;
  return 0;
}

int cuCtxPushCurrent_v2(void* context) {
  if (context == nullptr) return 201;
  contexts.push_back(context);
  return 0;
}

int cuCtxPopCurrent_v2(void** context) {
  *context = contexts.back();
  contexts.pop_back();
  return 0;
}

int cuStreamGetCtx(uintptr_t stream, void** context) {
  BEGIN();
  *context = ContextOf(stream);
  return 0;
}

int cuStreamSynchronize(uintptr_t stream) {
  BEGIN();
  Run(stream, state.streams[stream].queue.size());
  return 0;
}

int cuEventCreate(Event** event, unsigned) {
  BEGIN();
  *event = new Event{contexts.back()};
  ++state.events;
  return 0;
}

int cuEventDestroy_v2(Event* event) {
  BEGIN();
  delete event;
  --state.events;
  return 0;
}

int cuEventRecord(Event* event, uintptr_t stream) {
  BEGIN();
  if (event->context != ContextOf(stream)) return ++state.violations, 400;
  event->stream = stream;
  event->until = state.streams[stream].queue.size();
  return 0;
}

int cuEventSynchronize(Event* event) {
  BEGIN();
  Run(event->stream, event->until);
  return 0;
}

int cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  BEGIN();
  *pointer = new char[bytes];
  state.pinned[static_cast<char*>(*pointer)] = bytes;
  return 0;
}

int cuMemFreeHost(void* pointer) {
  BEGIN();
  if (int code = Forget(state.pinned, pointer)) return code;
  delete[] static_cast<char*>(pointer);
  return 0;
}

int cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned) {
  BEGIN();
  state.registered[static_cast<char*>(pointer)] = bytes;
  return 0;
}

int cuMemHostUnregister(void* pointer) {
  BEGIN();
  return Forget(state.registered, pointer);
}

int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, uintptr_t stream) {
  BEGIN();
  if (!Inside(state.pinned, to, bytes)) return ++state.violations, 1;
  if (!InUse(to, bytes)) std::memset(to, 0xee, bytes);
  state.streams[stream].queue.push_back(
      {static_cast<char*>(to), Memory(from), bytes, 0, 0});
  return 0;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes,
                         uintptr_t stream) {
  BEGIN();
  if (Inside(state.registered, from, bytes)) {
    state.from_registered += bytes;
  } else if (Inside(state.pinned, from, bytes)) {
    state.from_pinned += bytes;
  } else {
    ++state.violations;
  }
  state.streams[stream].queue.push_back(
      {Memory(to), static_cast<const char*>(from), bytes, 0, 0});
  return 0;
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, uintptr_t stream) {
  BEGIN();
  state.streams[stream].queue.push_back({Memory(to), nullptr, count, value, 1});
  return 0;
}

int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, uintptr_t stream) {
  BEGIN();
  state.streams[stream].queue.push_back({Memory(to), nullptr, 4 * count, value, 4});
  return 0;
}

// ---- for the tests ----

struct Buffer {
  int64_t dtype, rank;
  int64_t dims[8];
  uint64_t data;
};

uint64_t fake_allocate(int64_t bytes) {
  char* memory = new char[bytes + 1];
  std::memset(memory, 0xee, bytes);
  return reinterpret_cast<uint64_t>(memory) | kOnGpu;
}

void fake_free(uint64_t pointer) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  delete[] Memory(pointer);
}

// Copies to the GPU at once, like an earlier kernel that has ended.
void fake_write(uint64_t to, const void* from, int64_t bytes) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  std::memcpy(Memory(to), from, bytes);
}

// Waits for a stream and reads memory of the GPU.
void fake_read(uintptr_t stream, void* to, uint64_t from, int64_t bytes) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  Run(stream, state.streams[stream].queue.size());
  std::memcpy(to, Memory(from), bytes);
}

// Runs the copies that are queued.
void fake_finish() {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  for (auto& [name, stream] : state.streams) Run(name, stream.queue.size());
}

// Makes a function of the driver fail with a code from now on; 0 repairs it.
void fake_fail(const char* name, int64_t code) { state.failures[name] = code; }

int64_t fake_count(const char* name) { return state.calls[name]; }

// Numbers of: violations, registered ranges, pinned ranges, events, bytes copied from
// registered and from pinned memory.
void fake_report(int64_t* out) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  const int64_t numbers[] = {state.violations,
                             static_cast<int64_t>(state.registered.size()),
                             static_cast<int64_t>(state.pinned.size()),
                             state.events, state.from_registered, state.from_pinned};
  std::copy(std::begin(numbers), std::end(numbers), out);
}

void fake_reset() { state = State{}; }

// Calls a handler as XLA does in a program on a GPU, whose context is current. Writes
// the message of an error, else an empty string.
void fake_call(XLA_FFI_Handler* handler, uintptr_t stream, int64_t handle,
               int64_t inputs, const Buffer* in, int64_t outputs, const Buffer* out,
               char* message, int64_t size) {
  static const XLA_FFI_Api api = [] {
    XLA_FFI_Api copy = *xla::ffi::GetXlaFfiApi();
    copy.XLA_FFI_Stream_Get = [](XLA_FFI_Stream_Get_Args* args) -> XLA_FFI_Error* {
      args->stream = args->ctx;  // see below
      return nullptr;
    };
    return copy;
  }();
  std::vector<XLA_FFI_Buffer> buffers;
  for (int64_t i = 0; i < inputs + outputs; ++i) {
    const Buffer& buffer = i < inputs ? in[i] : out[i - inputs];
    buffers.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr,
                       static_cast<XLA_FFI_DataType>(buffer.dtype),
                       reinterpret_cast<void*>(buffer.data), buffer.rank,
                       const_cast<int64_t*>(buffer.dims)});
  }
  std::vector<void*> pointers;
  for (XLA_FFI_Buffer& buffer : buffers) pointers.push_back(&buffer);
  std::vector<XLA_FFI_ArgType> in_types(inputs, XLA_FFI_ArgType_BUFFER);
  std::vector<XLA_FFI_RetType> out_types(outputs, XLA_FFI_RetType_BUFFER);
  XLA_FFI_Scalar scalar{XLA_FFI_DataType_S64, &handle};
  XLA_FFI_ByteSpan span{"handle", 6};
  XLA_FFI_AttrType types[] = {XLA_FFI_AttrType_SCALAR};
  XLA_FFI_ByteSpan* names[] = {&span};
  void* values[] = {&scalar};
  XLA_FFI_CallFrame frame{};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = &api;
  frame.ctx = reinterpret_cast<XLA_FFI_ExecutionContext*>(stream);
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, inputs, in_types.data(),
                pointers.data()};
  frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, outputs, out_types.data(),
                pointers.data() + inputs};
  frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr, 1, types, names, values};
  contexts.push_back(ContextOf(stream));
  XLA_FFI_Error* error = handler(&frame);
  contexts.pop_back();
  message[0] = 0;
  if (error == nullptr) return;
  XLA_FFI_Error_GetMessage_Args get{XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE, nullptr,
                                    error, nullptr};
  api.XLA_FFI_Error_GetMessage(&get);
  std::strncpy(message, get.message, size - 1);
  message[size - 1] = 0;
  XLA_FFI_Error_Destroy_Args destroy{XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, nullptr,
                                     error};
  api.XLA_FFI_Error_Destroy(&destroy);
}

}  // extern "C"
