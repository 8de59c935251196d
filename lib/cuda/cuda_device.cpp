#include "cuda/cuda_device.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "cuda/device_failure.hpp"
#include "cuda/libtorch_cuda.hpp"
#include "cuda/product_call.hpp"
#include "cuda/stream.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::cuda {

namespace {

std::shared_ptr<void>& scratch() {
  static auto* const memory = new std::shared_ptr<void>;  // is released by its device, never by the end of the process
  return *memory;
}
std::size_t scratch_bytes = 0;
cudaStream_t stream_of_exchanges = nullptr;  // of the device in use

cudaMemcpyKind kind_of(const RegionCopy& copy) {
  const bool to_host = copy.to.arena == Arena::host;
  if (copy.from.arena == Arena::host) return to_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  return to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

std::shared_ptr<MomentOfQueue> as_moment(const DeviceMoment& moment) {
  return std::static_pointer_cast<MomentOfQueue>(moment);
}

}  // namespace

/// LibTorch's default stream, which is the current one on every thread, so that its operations are in this queue.
CUstream_st* compute_stream() {
  ready_for_call();
  return nullptr;
}

CUstream_st* exchange_stream() {
  ready_for_call();
  return stream_of_exchanges;
}

void* kernel_scratch(std::size_t bytes) {
  if (bytes > scratch_bytes) {
    scratch().reset();
    scratch_bytes = 0;
    scratch() = device_memory(bytes);
    scratch_bytes = bytes;
  }
  return scratch().get();
}

CudaDevice::CudaDevice(int index, DeviceProperties properties, void (*count)(std::int64_t bytes))
    : properties_(std::move(properties)) {
  begin_calls(index);
  try {
    ready_for_call();
    for (cudaStream_t& stream : streams_)  // that do not wait for the compute stream, nor it for them
      call("cannot make a stream", [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); });
    stream_of_exchanges = stream_of(DeviceQueue::exchange);
    count_tensor_memory(count);
    moments_->wait(moments_->record(compute_stream(), DeviceQueue::compute));
  } catch (...) {
    close();
    throw;
  }
}

CudaDevice::~CudaDevice() { close(); }

std::int64_t CudaDevice::free_memory() const {
  ready_for_call();
  std::size_t free = 0, all = 0;
  call("cannot ask for the free memory", [&] { return cudaMemGetInfo(&free, &all); });
  return static_cast<std::int64_t>(free);
}

void CudaDevice::close() noexcept {
  release_products();
  notes_.clear();
  moments_->close();
  if (!has_failed()) scratch().reset();
  scratch_bytes = 0;
  stream_of_exchanges = nullptr;
  for (const cudaStream_t stream : streams_)
    if (stream != nullptr) release([&] { return cudaStreamDestroy(stream); });
}

cudaStream_t CudaDevice::stream_of(DeviceQueue queue) const {
  switch (queue) {
    case DeviceQueue::compute: return compute_stream();
    case DeviceQueue::to_device: return streams_[0];
    case DeviceQueue::from_device: return streams_[1];
    case DeviceQueue::exchange: ready_for_call(); return streams_[2];
  }
  fail(ExitCode::bug, "unknown DeviceQueue {}", static_cast<int>(queue));
}

std::shared_ptr<std::byte> CudaDevice::pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  const std::size_t least = std::max<std::size_t>(bytes, 1);
  call(fmt::format("cannot pin {} of host memory", human_bytes(least)),
       [&] { return cudaHostAlloc(&memory, least, cudaHostAllocPortable); });
  const auto forget = [pinned = pinned_](std::byte* block) {
    const std::lock_guard lock(pinned->mutex);
    pinned->blocks.erase(block);
    release([&] { return cudaFreeHost(block); });
  };
  const std::shared_ptr<std::byte> block(static_cast<std::byte*>(memory), forget);
  const std::lock_guard lock(pinned_->mutex);
  pinned_->blocks.emplace(block.get(), least);
  return block;
}

bool CudaDevice::is_pinned(const std::byte* address) const {
  const std::lock_guard lock(pinned_->mutex);
  auto after = pinned_->blocks.upper_bound(address);
  if (after == pinned_->blocks.begin()) return false;
  --after;
  return address < after->first + after->second;
}

/// Whether the host must wait for the values of a copy. CUDA has read host memory that is not pinned when its call
/// returns, but memory that it writes has its values later.
bool CudaDevice::waits_for(const RegionCopy& copy) const {
  return copy.to.arena == Arena::host && (copy.from.arena == Arena::host || !is_pinned(copy.to.pointer));
}

void CudaDevice::copy(std::span<const RegionCopy> copies, DeviceQueue queue) {
  bool host_waits = false;
  for (const RegionCopy& one : copies) {
    invariant(one.from.bytes == one.to.bytes, "the two regions of a copy have one length");
    if (one.from.bytes == 0) continue;
    host_waits = host_waits || waits_for(one);
    if (has_failed()) continue;
    call("cannot copy", [&] {
      return cudaMemcpyAsync(one.to.pointer, one.from.pointer, one.from.bytes, kind_of(one), stream_of(queue));
    });
  }
  if (host_waits) wait(record(queue));
}

DeviceMoment CudaDevice::record(DeviceQueue queue) {
  if (has_failed()) return nullptr;
  return moments_->record(stream_of(queue), queue);
}

void CudaDevice::follow(DeviceQueue queue, const DeviceMoment& moment) {
  if (moment && !has_failed())
    call("cannot order two streams",
         [&] { return cudaStreamWaitEvent(stream_of(queue), as_moment(moment)->event, cudaEventWaitDefault); });
}

bool CudaDevice::is_over(const DeviceMoment& moment) {
  require_sound();
  return !moment || moments_->is_over(*as_moment(moment));
}

double CudaDevice::seconds_of(const DeviceMoment& moment) {
  invariant(is_over(moment), "the time of a moment is known when it is over");
  return moments_->seconds_of(*as_moment(moment));
}

void CudaDevice::wait(const DeviceMoment& moment) {
  require_sound();
  if (!moment) return;
  ++waits_;
  const auto awaited = as_moment(moment);
  // One action after the other, so that a failure finds the last one that has ended.
  if (awaited->queue == DeviceQueue::compute)
    for (Note note = first_open_note(); note.moment && note.moment->recorded_s <= awaited->recorded_s;
         note = first_open_note()) {
      moments_->wait(note.moment);
      end_note(note);
    }
  moments_->wait(awaited);
}

void CudaDevice::note(std::string action) {
  if (has_failed()) return;
  for (Note note = first_open_note(); note.moment && moments_->is_over(*note.moment); note = first_open_note())
    end_note(note);
  Note note{std::move(action), moments_->record(compute_stream(), DeviceQueue::compute)};
  const std::lock_guard lock(notes_mutex_);
  notes_.push_back(std::move(note));
}

CudaDevice::Note CudaDevice::first_open_note() {
  const std::lock_guard lock(notes_mutex_);
  return notes_.empty() ? Note() : notes_.front();
}

void CudaDevice::end_note(const Note& note) {
  const std::lock_guard lock(notes_mutex_);
  if (notes_.empty() || notes_.front().moment != note.moment) return;  // another thread was faster
  note_complete(note.action);
  notes_.pop_front();
}

}  // namespace lockstep::cuda
