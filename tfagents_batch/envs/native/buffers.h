// The buffers of a call, on the CPU or a GPU.

#ifndef TFAGENTS_BATCH_BUFFERS_H_
#define TFAGENTS_BATCH_BUFFERS_H_

#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace tfab __attribute__((visibility("hidden"))) {

namespace ffi = xla::ffi;

constexpr int64_t kMaxBuffers = 128;  // inputs or outputs of a call

struct Buffers {
  int64_t size = 0;
  void* data[kMaxBuffers];
  ffi::DataType dtypes[kMaxBuffers];
  int64_t counts[kMaxBuffers];  // elements
  int64_t bytes[kMaxBuffers];
};

}  // namespace tfab

#endif  // TFAGENTS_BATCH_BUFFERS_H_
