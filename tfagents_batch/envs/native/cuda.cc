#include "cuda.h"

#include <dlfcn.h>

#include <atomic>
#include <memory>

namespace tfab {

// The functions that are used, with the names that the library exports.
#define TFAB_DRIVER(F)                                                     \
  F(cuCtxPushCurrent_v2, (CUctx_st*))                                      \
  F(cuCtxPopCurrent_v2, (CUctx_st**))                                      \
  F(cuEventCreate, (CUevent_st**, unsigned flags))                         \
  F(cuEventDestroy_v2, (CUevent_st*))                                      \
  F(cuEventRecord, (CUevent_st*, Stream))                                  \
  F(cuEventSynchronize, (CUevent_st*))                                     \
  F(cuGetErrorName, (int code, const char**))                              \
  F(cuMemcpyDtoHAsync_v2, (void* to, uint64_t from, size_t, Stream))       \
  F(cuMemcpyHtoDAsync_v2, (uint64_t to, const void* from, size_t, Stream)) \
  F(cuMemFreeHost, (void*))                                                \
  F(cuMemHostAlloc, (void**, size_t, unsigned flags))                      \
  F(cuMemHostRegister_v2, (void*, size_t, unsigned flags))                 \
  F(cuMemHostUnregister, (void*))                                          \
  F(cuMemsetD32Async, (uint64_t, unsigned value, size_t count, Stream))    \
  F(cuMemsetD8Async, (uint64_t, unsigned char value, size_t, Stream))      \
  F(cuStreamGetCtx, (Stream, CUctx_st**))                                  \
  F(cuStreamSynchronize, (Stream))

struct Driver {
#define TFAB_MEMBER(name, parameters) int (*name) parameters;
  TFAB_DRIVER(TFAB_MEMBER)
#undef TFAB_MEMBER
};

namespace {

// The driver's flags.
constexpr unsigned kPortable = 1;       // pinned for all contexts
constexpr unsigned kDisableTiming = 2;  // makes events cheaper

constexpr const char* kLibrary = "libcuda.so.1";
constexpr int64_t kAlignment = 64;  // bytes

const Driver* Open(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw CudaError{dlerror()};
  auto driver = std::make_unique<Driver>();
  const char* missing = nullptr;
#define TFAB_LOAD(name, parameters)                                           \
  driver->name = reinterpret_cast<int (*) parameters>(dlsym(library, #name)); \
  if (driver->name == nullptr) missing = #name;
  TFAB_DRIVER(TFAB_LOAD)
#undef TFAB_LOAD
  if (missing != nullptr)
    throw CudaError{std::string(path) + " has no " + missing +
                    "; it needs a driver of CUDA 11 or later"};
  return driver.release();  // like the library, it stays
}

std::atomic<const Driver*> the_driver{nullptr};

void Check(const Driver& driver, int code, const char* function) {
  if (code == 0) return;
  const char* name = nullptr;
  driver.cuGetErrorName(code, &name);
  throw CudaError{std::string(function) + " failed with " +
                  (name != nullptr ? name : std::to_string(code))};
}

// Calls a function of `driver`, which must be in scope.
#define TFAB_CALL(name, ...) Check(driver, driver.name(__VA_ARGS__), #name)

uint64_t OnGpu(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

int64_t Padded(int64_t bytes) { return (bytes + kAlignment - 1) & -kAlignment; }

// Makes a context current in this thread. XLA does so for its calls, but a hub can be
// closed in any thread.
class Current {
 public:
  Current(const Driver& driver, CUctx_st* context) : driver_(driver) {
    pushed_ = driver.cuCtxPushCurrent_v2(context) == 0;
  }
  ~Current() {
    CUctx_st* context;
    if (pushed_) driver_.cuCtxPopCurrent_v2(&context);
  }

 private:
  const Driver& driver_;
  bool pushed_;
};

// Queues a copy to the GPU. Small values are passed by value.
void Copy(const Driver& driver, void* to, const void* from, int64_t bytes,
          Stream stream) {
  if (bytes == 1) {
    const auto value = *static_cast<const uint8_t*>(from);
    TFAB_CALL(cuMemsetD8Async, OnGpu(to), value, 1, stream);
  } else if (bytes == 4) {
    const auto value = *static_cast<const uint32_t*>(from);
    TFAB_CALL(cuMemsetD32Async, OnGpu(to), value, 1, stream);
  } else if (bytes > 0) {
    TFAB_CALL(cuMemcpyHtoDAsync_v2, OnGpu(to), from, bytes, stream);
  }
}

}  // namespace

const Driver& TheDriver() {
  const Driver* driver = the_driver;
  if (driver == nullptr) the_driver = driver = Open(kLibrary);
  return *driver;
}

void UseDriver(const char* path) {
  the_driver = path == nullptr ? nullptr : Open(path);
}

void FillOnGpu(Stream stream, void* out, uint8_t value, int64_t bytes) {
  const Driver& driver = TheDriver();
  if (bytes > 0) TFAB_CALL(cuMemsetD8Async, OnGpu(out), value, bytes, stream);
}

GpuCopies::GpuCopies(const Driver& driver, char* memory, int64_t size, Stream stream)
    : driver_(driver) {
  Enter(stream);
  Current current(driver, context_);
  if (memory != nullptr && driver.cuMemHostRegister_v2(memory, size, kPortable) == 0)
    registered_ = memory;
}

GpuCopies::~GpuCopies() {
  Unregister();
  DestroyEvent();
  Current current(driver_, context_);
  if (pinned_ != nullptr) driver_.cuMemFreeHost(pinned_);
}

void GpuCopies::Fetch(Stream stream, Buffers& in, Buffers& out) {
  const Driver& driver = driver_;
  if (stream != stream_) Enter(stream);
  Current current(driver, context_);
  int64_t bytes = 0;
  for (const Buffers* buffers : {&in, &out})
    for (int64_t i = 0; i < buffers->size; ++i) bytes += Padded(buffers->bytes[i]);
  if (bytes > pinned_bytes_) Reserve(bytes);
  char* place = pinned_;
  for (int64_t i = 0; i < in.size; ++i) {
    if (in.bytes[i] > 0)
      TFAB_CALL(cuMemcpyDtoHAsync_v2, place, OnGpu(in.data[i]), in.bytes[i], stream);
    in.data[i] = place;
    place += Padded(in.bytes[i]);
  }
  TFAB_CALL(cuStreamSynchronize, stream);
  busy_ = false;  // earlier copies were on this stream
  for (int64_t i = 0; i < out.size; ++i) {
    out.data[i] = place;
    place += Padded(out.bytes[i]);
  }
}

void GpuCopies::Deliver(void* const* to, const Buffers& out) {
  const Driver& driver = driver_;
  Current current(driver, context_);
  busy_ = true;
  try {
    for (int64_t i = 0; i < out.size; ++i)
      Copy(driver, to[i], out.data[i], out.bytes[i], stream_);
    TFAB_CALL(cuEventRecord, event_, stream_);
  } catch (const CudaError&) {
    driver.cuStreamSynchronize(stream_);  // earlier copies may be running
    busy_ = false;
    throw;
  }
}

void GpuCopies::Unregister() noexcept {
  Settle();
  if (registered_ == nullptr) return;
  Current current(driver_, context_);
  driver_.cuMemHostUnregister(registered_);
  registered_ = nullptr;
}

void GpuCopies::WaitForCopies() noexcept {
  Current current(driver_, context_);
  driver_.cuEventSynchronize(event_);  // if it fails, nothing copies any more
  busy_ = false;
}

void GpuCopies::Enter(Stream stream) {
  const Driver& driver = driver_;
  Settle();
  stream_ = nullptr;
  CUctx_st* context = nullptr;
  TFAB_CALL(cuStreamGetCtx, stream, &context);
  if (context != context_ || event_ == nullptr) {  // an event belongs to one GPU
    DestroyEvent();
    context_ = context;
    Current current(driver, context_);
    TFAB_CALL(cuEventCreate, &event_, kDisableTiming);
  }
  stream_ = stream;
}

void GpuCopies::DestroyEvent() noexcept {
  if (event_ == nullptr) return;
  Current current(driver_, context_);
  driver_.cuEventDestroy_v2(event_);
  event_ = nullptr;
}

void GpuCopies::Reserve(int64_t bytes) {
  const Driver& driver = driver_;
  Settle();
  if (pinned_ != nullptr) driver.cuMemFreeHost(pinned_);
  pinned_ = nullptr;
  pinned_bytes_ = 0;
  void* memory = nullptr;
  TFAB_CALL(cuMemHostAlloc, &memory, bytes, kPortable);
  pinned_ = static_cast<char*>(memory);
  pinned_bytes_ = bytes;
}

}  // namespace tfab
