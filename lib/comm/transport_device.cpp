#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/transport_state.hpp"

#include <fmt/format.h>

#include <chrono>

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds watchdogs_first(500);  // before a lost rank is reported here

Operation operation_until(DeviceMoment moment) { co_await Operation::Ended{.moment = &moment}; }

}  // namespace

void Transport::State::bring_back(Ticket ticket) {
  std::erase_if(returns, [&](const Return& one) {
    if (one.ticket.number % lanes.size() != ticket.number % lanes.size() || one.ticket.number > ticket.number)
      return false;
    this_device().follow(DeviceQueue::compute, *one.moment);
    return true;
  });
}

void Transport::State::watch_queue(const std::vector<Issued*>& heads) noexcept {
  const Issued* first = nullptr;
  for (const Issued* head : heads)
    if (head != nullptr && head->ranks != nullptr && !head->operation.done() &&
        (first == nullptr || head->order < first->order))
      first = head;
  const double now_s = monotonic_seconds();
  if (first == nullptr || first->order != watched) {
    watched = first == nullptr ? 0 : first->order;
    watched_since_s = now_s;
    if (device_waits) session->wait_for("");
    device_waits.reset();
    return;
  }
  constexpr double named_after_s = 0.05;
  if (device_waits || now_s - watched_since_s < named_after_s) return;
  try {
    if (!this_device().is_over(first->begin)) return;
  } catch (const Error&) {
    return;  // the device has failed: go_on tells it
  }
  device_waits.emplace();
  session->wait_for(fmt::format("{} {} of {}", name_of(first->record.kind), first->record.ticket.number / lanes.size(),
                                first->channel->name));
}

void Transport::State::watch(const Issued& issued) {
  try {
    issued.ranks->check();
  } catch (const Error&) {
    std::this_thread::sleep_for(watchdogs_first);
    throw;
  }
}

bool Transport::State::stays_on_device(int lane, int group, std::initializer_list<const Region*> regions) const {
  if (!on_device || std::ranges::any_of(regions, [](const Region* one) { return is_host_memory(*one); })) return false;
  return channel(lane, group).members.size() == 1 || device_ranks[static_cast<std::size_t>(group)] != nullptr;
}

Ticket Transport::State::issue_on_device(Kind kind, int lane, int group, std::size_t bytes, DType dtype,
                                         const std::function<void(DeviceOperations&, DeviceRanks*)>& queue) {
  Device& device = this_device();
  DeviceRanks* const ranks = device_ranks[static_cast<std::size_t>(group)];
  Issued issued{.operation = {}, .record = {}, .ranks = ranks, .order = ++device_orders};
  try {
    device.follow(DeviceQueue::exchange, device.record(DeviceQueue::compute));
    issued.begin = device.record(DeviceQueue::exchange);
    if (ranks != nullptr) session->inject(Phase::lane);
    queue(*on_device, ranks);
    issued.end = device.record(DeviceQueue::exchange);
  } catch (...) {
    end_job(kind, channel(lane, group));
  }
  auto end = std::make_shared<DeviceMoment>(issued.end);
  if (ranks != nullptr) issued.operation = operation_until(issued.end);
  const Ticket ticket = issue(kind, lane, group, bytes, dtype, std::move(issued));
  returns.push_back({.ticket = ticket, .moment = std::move(end), .memory = {}});
  queued.push_back(ticket);
  return ticket;
}

Ticket Transport::Staging::copied(const std::vector<RegionCopy>& copies, Ticket ticket) {
  if (copies.empty()) return ticket;
  const DeviceQueue queue =
      copies.front().from.arena == Arena::device ? DeviceQueue::from_device : DeviceQueue::to_device;
  this_device().follow(queue, this_device().record(DeviceQueue::compute));
  this_device().copy(copies, queue);
  returned_ = std::make_shared<DeviceMoment>(this_device().record(queue));
  return issued(ticket);
}

namespace {

/// Copies when the operation begins, not when it is issued: the one before it on the lane may write what it reads.
Operation between_copies(DeviceMoment issued, std::vector<RegionCopy> in, Operation operation,
                         std::vector<RegionCopy> back, std::shared_ptr<DeviceMoment> returned) {
  Device& device = this_device();
  device.follow(DeviceQueue::from_device, issued);
  device.follow(DeviceQueue::from_device, device.record(DeviceQueue::to_device));
  device.copy(in, DeviceQueue::from_device);
  const DeviceMoment ready = device.record(DeviceQueue::from_device);
  co_await Operation::Ended{.moment = &ready};
  for (; !operation.done(); operation.advance()) co_await operation.awaits();
  device.copy(back, DeviceQueue::to_device);
  *returned = device.record(DeviceQueue::to_device);
}

}  // namespace

std::span<std::byte> Transport::Staging::copy_of(const Region& region, bool written) {
  if (is_host_memory(region)) return host_bytes(region);
  memory_.push_back(pinned_memory(region.bytes));
  const Region host{Arena::host, memory_.back().get(), region.bytes};
  in_.push_back({region, host});
  if (written) back_.push_back({host, region});
  return {host.pointer, host.bytes};
}

Operation Transport::Staging::around(Operation operation) {
  if (memory_.empty()) return operation;
  returned_ = std::make_shared<DeviceMoment>();
  return between_copies(this_device().record(DeviceQueue::compute), std::move(in_), std::move(operation),
                        std::move(back_), returned_);
}

Ticket Transport::Staging::issued(Ticket ticket) {
  if (returned_) state_.returns.push_back({ticket, std::move(returned_), std::move(memory_)});
  return ticket;
}

}  // namespace lockstep
