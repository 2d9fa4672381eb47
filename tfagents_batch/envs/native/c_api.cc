// The interface to Python, see hub.py.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "hub.h"

using namespace tfab;

extern "C" {

// Returns an error text or null.
const char* tfab_register() { return RegisterCalls(); }

// For tests without a GPU: a file to use instead of libcuda.so.1, or null. Returns an
// error text or null.
const char* tfab_cuda_driver(const char* path) try {
  UseDriver(path);
  return nullptr;
} catch (const CudaError& error) {
  static thread_local std::string text;
  text = error.text;
  return text.c_str();
}

// Returns the handler for platform "CUDA" of a custom call, or null.
void* tfab_cuda_handler(const char* name) {
  return reinterpret_cast<void*>(HandlerOnGpu(name));
}

// Returns a handle, or 0 if the plan or the memory cannot be used.
int64_t tfab_open(int descriptor, const int64_t* plan, int64_t length) try {
  auto hub = std::make_shared<Hub>();
  if (!hub->Open(descriptor, plan, length)) return 0;
  return Insert(std::move(hub));
} catch (...) {
  return 0;
}

int tfab_ok(int64_t handle) {
  auto hub = Find(handle);
  return hub != nullptr && hub->Ok();
}

int tfab_failed(int64_t handle) {
  auto hub = Find(handle);
  return hub != nullptr && hub->Failed();
}

int tfab_take_used(int64_t handle) {
  auto hub = Find(handle);
  return hub != nullptr && hub->TakeUsed();
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

// Unmaps the memory but keeps the last observations.
void tfab_close(int64_t handle) {
  if (auto hub = Find(handle)) hub->Close();
}

// Removes the hub. Later calls with its handle are errors.
void tfab_free(int64_t handle) { Remove(handle); }

}  // extern "C"
