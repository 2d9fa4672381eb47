// The custom calls of XLA programs.
//
// Each call is one function of buffers on the CPU. On a GPU, inputs are copied there
// before it, and outputs back after it, see cuda.h.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "hub.h"

// Exported by TensorFlow's library. Its header cannot be included, because headers that
// it needs are not installed.
namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();
}

namespace tfab {
namespace {

struct Call {
  Buffers in, out;
  bool in_place = false;  // see hub.h
};

// ---- the calls: they return false if a shape is wrong ----

// Returns the int32 values of a buffer, and sets their number; null if there are none.
int32_t* Int32(const Buffers& buffers, int64_t i, int64_t* count) {
  if (i >= buffers.size || buffers.dtypes[i] != ffi::DataType::S32) return nullptr;
  *count = buffers.counts[i];
  return static_cast<int32_t*>(buffers.data[i]);
}

int32_t* Token(const Buffers& buffers) {
  int64_t count = 0;
  int32_t* token = Int32(buffers, 0, &count);
  return count == 1 ? token : nullptr;
}

// Checks outputs: rows of `groups` groups, after `before` other outputs.
bool HasRows(const Hub& hub, const Buffers& out, int64_t before, int64_t groups) {
  if (out.size != hub.Outputs() + before) return false;
  for (int64_t i = 0; i < hub.Outputs(); ++i)
    if (out.bytes[before + i] * hub.NumGroups() != hub.OutputBytes(i) * groups)
      return false;
  return true;
}

// Checks inputs: actions of `groups` groups, after `before` other inputs.
bool HasActions(const Hub& hub, const Buffers& in, int64_t before, int64_t groups) {
  if (in.size != hub.Inputs() + before) return false;
  for (int64_t i = 0; i < hub.Inputs(); ++i) {
    const ffi::DataType dtype = in.dtypes[before + i];
    const bool known = hub.IsFloatInput(i) ? dtype == ffi::DataType::F32
                                           : WithIntegers(dtype, [](auto) {});
    const int64_t count = in.counts[before + i] * hub.NumGroups();
    if (!known || count != hub.InputCount(i) * groups) return false;
  }
  return true;
}

bool Init(Hub& hub, Call& call) {
  int32_t* next = Token(call.out);
  if (call.in.size != 1 || call.in.bytes[0] != 8 || next == nullptr ||
      !HasRows(hub, call.out, 1, hub.NumGroups()))
    return false;
  uint64_t seed;
  std::memcpy(&seed, call.in.data[0], sizeof seed);
  *next = hub.Init(seed, call.out.data + 1, call.in_place);
  return true;
}

bool Step(Hub& hub, Call& call) {
  const int32_t* token = Token(call.in);
  int32_t* next = Token(call.out);
  if (token == nullptr || next == nullptr ||
      !HasRows(hub, call.out, 1, hub.NumGroups()) ||
      !HasActions(hub, call.in, 1, hub.NumGroups()))
    return false;
  *next = hub.Step(*token, call.in.data + 1, call.in.dtypes + 1, call.out.data + 1,
                   call.in_place);
  return true;
}

bool Send(Hub& hub, Call& call) {
  int64_t groups = 0;
  const int32_t* token = Token(call.in);
  const int32_t* chosen = Int32(call.in, 1, &groups);
  int32_t* next = Token(call.out);
  if (token == nullptr || chosen == nullptr || next == nullptr || call.out.size != 1 ||
      !HasActions(hub, call.in, 2, groups))
    return false;
  *next = hub.Send(*token, chosen, groups, call.in.data + 2, call.in.dtypes + 2);
  return true;
}

// Receives the groups of the second input, or without one the first that are done.
bool Receive(Hub& hub, Call& call) {
  int64_t groups = 0, wanted = 0;
  const int32_t* token = Token(call.in);
  const int32_t* chosen = Int32(call.in, 1, &wanted);
  int32_t* next = Token(call.out);
  int32_t* found = Int32(call.out, 1, &groups);
  if (token == nullptr || next == nullptr || found == nullptr || groups < 1 ||
      groups > hub.NumGroups() || !HasRows(hub, call.out, 2, groups) ||
      (call.in.size > 1 && (chosen == nullptr || wanted != groups)))
    return false;
  *next = hub.Receive(*token, chosen, groups, found, call.out.data + 2, call.in_place);
  return true;
}

// ---- their handlers ----

using Function = bool (*)(Hub&, Call&);

ffi::Error Refusal(const char* code, int64_t handle, const std::string& text = "") {
  return ffi::Error(ffi::ErrorCode::kAborted, "tfab:" + std::string(code) + ":" +
                                                  std::to_string(handle) + text);
}

bool Add(const ffi::AnyBuffer& buffer, Buffers* buffers) {
  if (buffers->size == kMaxBuffers) return false;
  const int64_t i = buffers->size++;
  buffers->data[i] = buffer.untyped_data();
  buffers->dtypes[i] = buffer.element_type();
  buffers->counts[i] = static_cast<int64_t>(buffer.element_count());
  buffers->bytes[i] = buffers->counts[i] * ffi::ByteWidth(buffers->dtypes[i]);
  return true;
}

bool Read(ffi::RemainingArgs args, ffi::RemainingRets rets, Call* call) {
  bool fine = true;
  for (size_t i = 0; fine && i < args.size(); ++i) {
    auto buffer = args.get<ffi::AnyBuffer>(i);
    fine = buffer.has_value() && Add(*buffer, &call->in);
  }
  for (size_t i = 0; fine && i < rets.size(); ++i) {
    auto buffer = rets.get<ffi::AnyBuffer>(i);
    fine = buffer.has_value() && Add(**buffer, &call->out);
  }
  return fine;
}

// Reads the buffers and calls `run` with the hub of a handle. Exceptions become errors.
template <typename Run>
ffi::Error WithHub(ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t handle,
                   Run&& run) try {
  Call call;
  if (!Read(args, rets, &call)) return Refusal("shape", handle);
  const std::shared_ptr<Hub> hub = Find(handle);
  if (hub == nullptr) return Refusal("unknown", handle);
  return run(*hub, call) ? ffi::Error::Success() : Refusal("shape", handle);
} catch (const CudaError& error) {
  return Refusal("cuda", handle, ": the GPU cannot step environments: " + error.text);
} catch (...) {
  return Refusal("internal", handle);
}

template <Function kFunction>
ffi::Error OnHost(ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t handle) {
  return WithHub(args, rets, handle, [](Hub& hub, Call& call) {
    const auto lock = hub.Lock();
    return kFunction(hub, call);
  });
}

template <Function kFunction>
ffi::Error OnGpu(Stream stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                 int64_t handle) {
  return WithHub(args, rets, handle, [=](Hub& hub, Call& call) {
    // Held until the copies are queued, so that nothing unmaps what they read.
    const auto lock = hub.Lock();
    GpuCopies& copies = hub.Copies(stream);
    void* outputs[kMaxBuffers];
    std::copy_n(call.out.data, call.out.size, outputs);
    copies.Fetch(stream, call.in, call.out);
    call.in_place = copies.Registered();
    const bool fine = kFunction(hub, call);
    if (fine) copies.Deliver(outputs, call.out);
    return fine;
  });
}

// Neither takes the lock nor reads its input, so it waits for nothing. `fill` sets the
// only byte of the output.
template <typename Fill>
ffi::Error SetOk(ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t handle,
                 Fill&& fill) {
  return WithHub(args, rets, handle, [&](Hub& hub, Call& call) {
    const bool fine = call.out.size == 1 && call.out.bytes[0] == 1;
    if (fine) fill(call.out.data[0], hub.Ok());
    return fine;
  });
}

ffi::Error OkOnHost(ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t handle) {
  return SetOk(args, rets, handle,
               [](void* out, uint8_t ok) { std::memset(out, ok, 1); });
}

ffi::Error OkOnGpu(Stream stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                   int64_t handle) {
  return SetOk(args, rets, handle,
               [=](void* out, uint8_t ok) { FillOnGpu(stream, out, ok, 1); });
}

template <typename Binding>
auto WithBuffers(Binding&& binding) {
  return std::move(binding).RemainingArgs().RemainingRets().template Attr<int64_t>(
      "handle");
}

template <auto kCall>
XLA_FFI_Error* HostHandler(XLA_FFI_CallFrame* frame) {
  static auto* handler = WithBuffers(ffi::Ffi::Bind()).To(kCall).release();
  return handler->Call(frame);
}

template <auto kCall>
XLA_FFI_Error* GpuHandler(XLA_FFI_CallFrame* frame) {
  static auto* handler =
      WithBuffers(ffi::Ffi::Bind().Ctx<ffi::PlatformStream<Stream>>())
          .To(kCall)
          .release();
  return handler->Call(frame);
}

struct Handlers {
  const char* name;
  XLA_FFI_Handler* host;
  XLA_FFI_Handler* gpu;
};

constexpr Handlers kHandlers[] = {
    {"tfab_init", HostHandler<OnHost<Init>>, GpuHandler<OnGpu<Init>>},
    {"tfab_step", HostHandler<OnHost<Step>>, GpuHandler<OnGpu<Step>>},
    {"tfab_send", HostHandler<OnHost<Send>>, GpuHandler<OnGpu<Send>>},
    {"tfab_receive", HostHandler<OnHost<Receive>>, GpuHandler<OnGpu<Receive>>},
    {"tfab_ok", HostHandler<OkOnHost>, GpuHandler<OkOnGpu>},
};

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

const char* RegisterCalls() {
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
    // They wait on the CPU, so none may be part of a CUDA graph: no traits.
    for (const auto& [name, host, gpu] : kHandlers) {
      if (auto* error = ffi::Ffi::RegisterStaticHandler(api, name, "Host", host))
        *text = Message(api, error);
      if (auto* error = ffi::Ffi::RegisterStaticHandler(api, name, "CUDA", gpu))
        *text = Message(api, error);
    }
    return text;
  }();
  return problem->empty() ? nullptr : problem->c_str();
}

XLA_FFI_Handler* HandlerOnGpu(const char* name) {
  for (const Handlers& each : kHandlers)
    if (std::strcmp(each.name, name) == 0) return each.gpu;
  return nullptr;
}

}  // namespace tfab
