// The custom calls of XLA programs.

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

// Calls `call` with the hub of a handle; it returns false if a shape is wrong. Without a
// hub, fails all rows if the pool has been closed; `before` outputs precede the
// `observations` arrays.
template <typename F>
ffi::Error WithHub(ffi::RemainingRets rets, int64_t handle, int64_t before,
                   int64_t observations, F&& call) try {
  if (const std::shared_ptr<Hub> hub = Find(handle))
    return call(*hub) ? ffi::Error::Success() : Refusal("shape", handle);
  return WasOpen(handle) ? FailAll(rets, before, observations, handle)
                         : Refusal("unknown", handle);
} catch (...) {
  return Refusal("internal", handle);
}

// Reads the token, which is the first input; null if there is none.
const int32_t* Token(ffi::RemainingArgs args) {
  int64_t count = 0;
  const int32_t* token = Int32(args, 0, &count);
  return count == 1 ? token : nullptr;
}

ffi::Error InitCall(ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t handle,
                    int64_t observations) {
  return WithHub(rets, handle, 1, observations, [&](Hub& hub) {
    Outputs outputs;
    auto seed = args.get<ffi::AnyBuffer>(0);
    if (!seed.has_value() || seed->size_bytes() != 8 || !outputs.Read(hub, rets, false))
      return false;
    uint64_t value;
    std::memcpy(&value, seed->untyped_data(), sizeof value);
    *outputs.token = hub.Init(value, outputs.rows);
    return true;
  });
}

ffi::Error StepCall(ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t handle,
                    int64_t observations) {
  return WithHub(rets, handle, 1, observations, [&](Hub& hub) {
    Outputs outputs;
    Inputs inputs;
    const int32_t* token = Token(args);
    if (token == nullptr || !outputs.Read(hub, rets, false) ||
        !inputs.Read(hub, args, 1, hub.NumGroups()))
      return false;
    *outputs.token = hub.Step(*token, inputs.data, inputs.dtypes, outputs.rows);
    return true;
  });
}

ffi::Error SendCall(ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t handle) {
  return WithHub(rets, handle, 1, 0, [&](Hub& hub) {
    Inputs inputs;
    int64_t outputs = 0, groups = 0;
    const int32_t* token = Token(args);
    const int32_t* chosen = Int32(args, 1, &groups);
    int32_t* next = Int32(rets, 0, &outputs);
    if (token == nullptr || chosen == nullptr || next == nullptr || outputs != 1 ||
        !inputs.Read(hub, args, 2, groups))
      return false;
    *next = hub.Send(*token, chosen, groups, inputs.data, inputs.dtypes);
    return true;
  });
}

// Receives the groups of the second input, or without one the first that are done.
ffi::Error ReceiveCall(ffi::RemainingArgs args, ffi::RemainingRets rets, int64_t handle,
                       int64_t observations) {
  return WithHub(rets, handle, 2, observations, [&](Hub& hub) {
    Outputs outputs;
    int64_t groups = 0;
    const int32_t* token = Token(args);
    const int32_t* chosen = args.size() > 1 ? Int32(args, 1, &groups) : nullptr;
    if (token == nullptr || !outputs.Read(hub, rets, true) ||
        (args.size() > 1 && (chosen == nullptr || groups != outputs.groups)))
      return false;
    *outputs.token =
        hub.Receive(*token, chosen, outputs.groups, outputs.found, outputs.rows);
    return true;
  });
}

ffi::Error OkCall(ffi::AnyBuffer token, ffi::Result<ffi::AnyBuffer> ok,
                  int64_t handle) try {
  const std::shared_ptr<Hub> hub = Find(handle);
  if (hub == nullptr && !WasOpen(handle)) return Refusal("unknown", handle);
  *static_cast<uint8_t*>(ok->untyped_data()) = hub != nullptr && hub->Ok();
  return ffi::Error::Success();
} catch (...) {
  return Refusal("internal", handle);
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

}  // namespace tfab
