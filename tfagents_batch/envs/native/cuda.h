// Copies between a hub and a GPU, by the CUDA driver.
//
// The driver is the library libcuda.so.1. It is opened when a program on a GPU calls a
// hub for the first time, so nothing of CUDA is needed to compile or load this library.

#ifndef TFAGENTS_BATCH_CUDA_H_
#define TFAGENTS_BATCH_CUDA_H_

#include <cstdint>
#include <string>

#include "buffers.h"

struct CUstream_st;  // the driver's types
struct CUctx_st;
struct CUevent_st;

namespace tfab __attribute__((visibility("hidden"))) {

using Stream = CUstream_st*;
struct Driver;

struct CudaError {
  std::string text;
};

// Returns the functions of the driver; throws CudaError if there is none.
const Driver& TheDriver();

// Replaces the driver by that of another file; null returns to libcuda.so.1. Hubs that
// a GPU has called keep theirs. Throws CudaError if the file cannot be used.
void UseDriver(const char* path);

// Fills memory of the GPU with a byte, without waiting. Throws CudaError.
void FillOnGpu(Stream stream, void* out, uint8_t value, int64_t bytes);

// Copies of one hub, whose lock guards it.
//
// Copies to the GPU are not waited for, and read the workers' shared memory and pinned
// memory of this class. Both may be written only after `Settle`, that is
//
// * by workers: they write after a command, and the hub settles before each command;
// * by the next call: it begins with `Fetch`, which waits for its stream. That includes
//   earlier copies on the same stream, and `Fetch` settles first if the stream differs.
class GpuCopies {
 public:
  // Registers the memory, so that copies from there are asynchronous. If the driver
  // refuses that, it is not `Registered`, and pinned memory must be used.
  GpuCopies(const Driver& driver, char* memory, int64_t size, Stream stream);
  ~GpuCopies();

  bool Registered() const { return registered_ != nullptr; }

  // Copies inputs to pinned memory and waits once for the stream. Sets the pointers of
  // `in` to the copies, and those of `out` to pinned memory. Throws CudaError.
  void Fetch(Stream stream, Buffers& in, Buffers& out);

  // Copies outputs from pinned or registered memory to the pointers `to` on the GPU,
  // without waiting. The stream is that of `Fetch`. Throws CudaError.
  void Deliver(void* const* to, const Buffers& out);

  // Waits until the GPU has read everything.
  void Settle() noexcept {
    if (busy_) WaitForCopies();
  }

  // Settles, and ends the registration: the memory is about to be unmapped.
  void Unregister() noexcept;

 private:
  void WaitForCopies() noexcept;
  void Enter(Stream stream);
  void DestroyEvent() noexcept;
  void Reserve(int64_t bytes);

  const Driver& driver_;
  Stream stream_ = nullptr;
  CUctx_st* context_ = nullptr;  // of the stream
  CUevent_st* event_ = nullptr;  // is recorded after the last copies
  bool busy_ = false;            // whether copies may be running
  char* registered_ = nullptr;   // shared memory
  char* pinned_ = nullptr;
  int64_t pinned_bytes_ = 0;
};

}  // namespace tfab

#endif  // TFAGENTS_BATCH_CUDA_H_
