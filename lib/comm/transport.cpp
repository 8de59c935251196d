#include "comm/transport.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/failure.hpp"
#include "comm/local_work.hpp"
#include "comm/transport_state.hpp"

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

namespace lockstep {

namespace {

using Kind = OperationRecord::Kind;

constexpr std::chrono::milliseconds look_at_lane(50);  // by who waits for it

std::size_t element_bytes(DType dtype) { return static_cast<std::size_t>(size_of(dtype)); }

/// Sleeps of this thread end when they should: by default the system adds as much as the shortest of them.
void short_sleeps() {
#ifdef __linux__
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // ns; a system that refuses only makes them longer
#endif
}

std::string joined(const std::vector<AxisName>& axes) {
  std::string text;
  for (const AxisName& axis : axes) text += (text.empty() ? "" : "+") + axis;
  return text.empty() ? "nothing" : text;
}

void check_shard(const ShardMap& map, std::size_t ranks, std::size_t rank, std::size_t whole_bytes, DType dtype,
                 std::size_t shard_bytes, DType shard_dtype) {
  invariant(map.pieces.size() == ranks, "a shard map has a list for each rank of the group");
  invariant(whole_bytes == static_cast<std::size_t>(map.whole_length) * element_bytes(dtype),
            "the whole buffer has the length of its shard map");
  std::int64_t end = 0;
  for (const ShardPiece& piece : map.pieces[rank]) end = std::max(end, piece.shard + piece.length);
  invariant(shard_bytes >= static_cast<std::size_t>(end) * element_bytes(shard_dtype),
            "the shard holds all of its pieces");
}

/// The bytes of memory of the device, which the host does not touch.
std::span<std::byte> all_of(const Region& region) { return {region.pointer, region.bytes}; }

std::int64_t sum_of(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// Counts of elements that lie side by side, by rank, as parts of `bytes`.
template <class Byte>
std::vector<Part<Byte>> parts_of(std::span<Byte> bytes, std::span<const std::int64_t> counts, DType dtype) {
  std::vector<Part<Byte>> parts;
  std::size_t at = 0;
  for (std::size_t peer = 0; peer < counts.size(); ++peer) {
    const std::size_t length = static_cast<std::size_t>(counts[peer]) * element_bytes(dtype);
    parts.push_back({static_cast<int>(peer), bytes.subspan(at, length)});
    at += length;
  }
  return parts;
}

}  // namespace

std::string_view name_of(OperationRecord::Kind kind) {
  switch (kind) {
    case Kind::all_reduce: return "all_reduce";
    case Kind::all_gather: return "all_gather";
    case Kind::reduce_scatter: return "reduce_scatter";
    case Kind::broadcast: return "broadcast";
    case Kind::send: return "send";
    case Kind::receive: return "receive";
    case Kind::all_to_all_v: return "all_to_all_v";
    case Kind::shift: return "shift";
    case Kind::copy: return "copy";
  }
  return "unknown";
}

void Transport::State::serve() {
  short_sleeps();
  Waiting::counts_in(waits_of_caller);
  std::vector<Issued*> heads(lanes.size());
  Backoff backoff;
  std::unique_lock lock(mutex);
  for (;;) {
    if (open == 0) watch_queue({});
    work.wait(lock, [this] { return over || open > 0; });
    if (open == 0) return;
    for (std::size_t i = 0; i < lanes.size(); ++i)
      heads[i] = lanes[i].queue.empty() ? nullptr : &lanes[i].queue.front();
    lock.unlock();
    bool moved = false;
    for (std::size_t i = 0; i < lanes.size(); ++i)
      if (heads[i] != nullptr && go_on(lanes[i], *heads[i])) moved = true;
    watch_queue(heads);
    lock.lock();
    for (std::size_t i = 0; i < lanes.size(); ++i)
      if (heads[i] != nullptr && heads[i]->operation.done()) finish(lanes[i]);
    if (moved) {
      backoff.moved();
      continue;
    }
    const double sleep_s = backoff.next_sleep_s(waiting > 0 ? Backoff::Caller::waits : Backoff::Caller::computes);
    if (sleep_s > 0) work.wait_for(lock, std::chrono::duration<double>(sleep_s));
  }
}

bool Transport::State::go_on(Lane& lane, Issued& first) noexcept {
  if (first.record.begin_s == 0) first.record.begin_s = monotonic_seconds();
  try {
    const bool goes_on = first.operation.done() || first.operation.ready();
    if (!goes_on && first.ranks != nullptr) {
      watch(first);
      lane.waits = false;  // watch_queue marks that
      return false;
    }
    lane.waits = !goes_on;
    if (!goes_on) return false;
    works = true;
    if (!first.operation.done()) first.operation.advance();
    works = false;
    return true;
  } catch (...) {
    end_job(first.record.kind, *first.channel);
  }
}

[[noreturn]] void Transport::State::end_job(Kind kind, const Channel& ranks) noexcept {
  Failure failure = failure_of(std::current_exception(), session->world());
  failure.message = fmt::format("in {} over {}: {}", name_of(kind),
                                ranks.members.size() > 1 ? ranks.name : "this rank alone", failure.message);
  session->abort_with(failure);
}

void Transport::State::finish(Lane& lane) {
  const Issued& ended = lane.queue.front();
  OperationRecord record = ended.record;
  record.end_s = monotonic_seconds();
  if (ended.ranks != nullptr) {
    record.begin_s = this_device().seconds_of(ended.begin);
    record.end_s = this_device().seconds_of(ended.end);
  }
  lane.busy_s += record.end_s - record.begin_s;
  if (records_wanted) records.push_back(record);
  lane.queue.pop_front();
  ++lane.ended;
  --open;
  ends.notify_all();
}

Ticket Transport::State::issue(Kind kind, int lane_index, int group, std::size_t bytes, DType dtype, Issued issued) {
  LocalWork::forbid_collective(name_of(kind).data());
  Lane& lane = lanes[static_cast<std::size_t>(lane_index)];
  std::unique_lock lock(mutex);
  issued.channel = &channel(lane_index, group);
  issued.record = {.kind = kind,
                   .lane = lane_index,
                   .group = group,
                   .members = &issued.channel->members,
                   .bytes = static_cast<std::int64_t>(bytes),
                   .dtype = dtype,
                   .ticket = {(lane.issued + 1) * lanes.size() + static_cast<std::size_t>(lane_index)}};
  const Ticket ticket = issued.record.ticket;
  if (log != nullptr) {
    logged.emplace_back(ticket, TraceEntry{.event = TraceEntry::Event::issued,
                                           .what = name_of(kind),
                                           .lane = static_cast<lockstep::Lane>(lane_index),
                                           .members = issued.channel->members,
                                           .bytes = static_cast<std::int64_t>(bytes),
                                           .dtype = dtype});
    log->add(logged.back().second);
  }
  const bool beside = kind == Kind::copy && thread.joinable();
  const bool at_once = issued.channel->members.size() == 1 && lane.queue.empty() && !beside;
  if (at_once) {
    lock.unlock();
    issued.record.begin_s = monotonic_seconds();
    run_to_end(std::move(issued.operation));
    lock.lock();
  }
  lane.queue.push_back(std::move(issued));
  ++lane.issued;
  ++open;
  if (at_once)
    finish(lane);
  else
    work.notify_one();
  return ticket;
}

Transport::Transport(Session& session, const Mesh& mesh, const std::vector<std::string>& lanes,
                     const std::vector<std::vector<AxisName>>& groups, const LaneUse& sends, DeviceExchange device,
                     const LaneUse& sends_on_device)
    : state_(std::make_shared<State>()) {
  Communicator& world = session.world();
  state_->session = &session;
  state_->waits_of_caller = Waiting::count();
  invariant(world_size(mesh) == world.size(), "the mesh of a transport has the ranks of its session");
  bool several = false;
  state_->groups = groups;
  for (const std::string& name : lanes) {
    State::Lane& lane = state_->lanes.emplace_back();
    lane.name = name;
    const int lane_number = static_cast<int>(state_->lanes.size()) - 1;
    for (std::size_t group = 0; group < groups.size(); ++group) {
      State::Channel& channel = lane.channels.emplace_back();
      channel.members = lockstep::group_along(mesh, world.world_rank(), groups[group]);
      std::ranges::sort(channel.members);
      channel.name = fmt::format("{} on lane {}", joined(groups[group]), name);
      const auto self = std::ranges::find(channel.members, world.world_rank());
      channel.self = static_cast<std::size_t>(self - channel.members.begin());
      if (channel.members.size() == 1 || (sends && !sends(lane_number, static_cast<int>(group)))) continue;
      channel.ranks = world.split(channel.members.front(), channel.name);
      invariant(channel.ranks->members() == channel.members, "a communicator has the ranks of its group");
      NonBlocking& calls = channel.ranks->calls();
      calls.agree_on_reading();
      calls.amid_operations([&session] { session.inject(Phase::lane); });
      several = true;
    }
  }
  state_->device_ranks.resize(groups.size());
  std::map<std::vector<Rank>, DeviceRanks*> connected;
  const bool has_nccl = device.nccl != nullptr;
  for (std::size_t group = 0; has_nccl && group < groups.size(); ++group) {
    Communicator* ranks = nullptr;
    for (std::size_t lane = 0; lane < lanes.size() && ranks == nullptr; ++lane)
      if (sends_on_device && sends_on_device(static_cast<int>(lane), static_cast<int>(group)))
        ranks = state_->lanes[lane].channels[group].ranks.get();
    if (ranks == nullptr) continue;
    DeviceRanks*& of_members = connected[ranks->members()];
    if (of_members == nullptr)
      of_members = state_->connections.emplace_back(std::make_unique<DeviceRanks>(*device.nccl, *ranks)).get();
    state_->device_ranks[group] = of_members;
  }
  if (device.kernels.copy_pieces != nullptr) state_->on_device.emplace(std::move(device));
  if (several) state_->thread = std::thread([state = state_] { state->serve(); });
}

Transport::~Transport() {
  if (!state_->thread.joinable()) return;
  std::unique_lock lock(state_->mutex);
  state_->over = true;
  if (std::uncaught_exceptions() > 0) {
    for (State::Lane& lane : state_->lanes) {
      for (; lane.queue.size() > 1; --state_->open) lane.queue.pop_back();  // not begun
    }
    state_->work.notify_one();
    const bool idle = state_->ends.wait_for(lock, std::chrono::seconds(2), [this] { return state_->open == 0; });
    if (!idle) {
      for (const auto& ranks : state_->connections) ranks->abort();
      state_->thread.detach();
      return;
    }
  }
  state_->work.notify_one();
  lock.unlock();
  state_->thread.join();
}

Ticket Transport::all_reduce(int lane, int group, const Region& bytes, DType dtype, Reduce reduce) {
  const State::Channel& channel = state_->connected(lane, group);
  invariant(bytes.bytes % element_bytes(dtype) == 0, "all_reduce takes whole elements");
  if (state_->stays_on_device(lane, group, {&bytes}))
    return state_->issue_on_device(
        Kind::all_reduce, lane, group, bytes.bytes, dtype,
        [&](DeviceOperations& device, DeviceRanks* ranks) { device.all_reduce(ranks, bytes, dtype, reduce); });
  Staging staging(*state_);
  Operation operation;
  if (channel.ranks)
    operation = staging.around(
        lockstep::all_reduce(channel.ranks->calls(), state_->space(lane), staging.out(bytes), dtype, reduce));
  return staging.issued(state_->issue(Kind::all_reduce, lane, group, bytes.bytes, dtype, std::move(operation)));
}

Ticket Transport::all_reduce_into(int lane, int group, const Region& bytes, DType dtype, const Region& place,
                                  SumInto into) {
  const State::Channel& channel = state_->connected(lane, group);
  invariant(bytes.bytes % element_bytes(dtype) == 0 &&
                place.bytes == bytes.bytes / element_bytes(dtype) * element_bytes(into.dtype.value_or(dtype)),
            "the output of a sum has as many elements as its input");
  if (state_->stays_on_device(lane, group, {&bytes, &place}))
    return state_->issue_on_device(Kind::all_reduce, lane, group, bytes.bytes, dtype,
                                   [&](DeviceOperations& device, DeviceRanks* ranks) {
                                     device.all_reduce_into(ranks, bytes, dtype, place, into);
                                   });
  Staging staging(*state_);
  const std::span<std::byte> operand = staging.scratch(bytes), result = staging.out(place);
  return staging.issued(state_->issue(
      Kind::all_reduce, lane, group, bytes.bytes, dtype,
      staging.around(channel.ranks ? lockstep::all_reduce_into(channel.ranks->calls(), state_->space(lane), operand,
                                                               dtype, result, into)
                                   : put_alone(operand, dtype, result, into))));
}

Ticket Transport::all_gather(int lane, int group, const Region& shard, const Region& whole, const ShardMap& map,
                             DType dtype) {
  const State::Channel& channel = state_->connected(lane, group);
  check_shard(map, channel.members.size(), channel.rank(), whole.bytes, dtype, shard.bytes, dtype);
  if (state_->stays_on_device(lane, group, {&shard, &whole}))
    return state_->issue_on_device(
        Kind::all_gather, lane, group, shard.bytes, dtype,
        [&](DeviceOperations& device, DeviceRanks* ranks) { device.all_gather(ranks, shard, whole, map, dtype); });
  Staging staging(*state_);
  const std::span<const std::byte> own = staging.in(shard);
  const std::span<std::byte> all = staging.out(whole);
  return staging.issued(state_->issue(
      Kind::all_gather, lane, group, shard.bytes, dtype,
      staging.around(channel.ranks
                         ? lockstep::all_gather(channel.ranks->calls(), state_->space(lane), own, all, map, dtype)
                         : gather_alone(own, all, map, dtype))));
}

Ticket Transport::reduce_scatter(int lane, int group, const Region& whole, const Region& shard, const ShardMap& map,
                                 DType dtype, SumInto into) {
  const State::Channel& channel = state_->connected(lane, group);
  check_shard(map, channel.members.size(), channel.rank(), whole.bytes, dtype, shard.bytes, into.dtype.value_or(dtype));
  if (state_->stays_on_device(lane, group, {&whole, &shard}))
    return state_->issue_on_device(Kind::reduce_scatter, lane, group, whole.bytes, dtype,
                                   [&](DeviceOperations& device, DeviceRanks* ranks) {
                                     device.reduce_scatter(ranks, whole, shard, map, dtype, into);
                                   });
  Staging staging(*state_);
  const std::span<const std::byte> operand = staging.in(whole);
  const std::span<std::byte> result = staging.out(shard);
  return staging.issued(
      state_->issue(Kind::reduce_scatter, lane, group, whole.bytes, dtype,
                    staging.around(channel.ranks ? lockstep::reduce_scatter(channel.ranks->calls(), state_->space(lane),
                                                                            operand, result, map, dtype, into)
                                                 : scatter_alone(operand, result, map, dtype, into))));
}

Ticket Transport::broadcast(int lane, int group, int root, const Region& bytes) {
  const State::Channel& channel = state_->connected(lane, group);
  invariant(root >= 0 && static_cast<std::size_t>(root) < channel.members.size(),
            "the root of a broadcast is one of its ranks");
  const bool mine = static_cast<std::size_t>(root) == channel.rank();
  if (state_->stays_on_device(lane, group, {&bytes}))
    return state_->issue_on_device(
        Kind::broadcast, lane, group, mine ? bytes.bytes : 0, DType::u8,
        [&](DeviceOperations& device, DeviceRanks* ranks) { device.broadcast(ranks, bytes, root); });
  Staging staging(*state_);
  Operation operation;
  if (channel.ranks)
    operation =
        staging.around(lockstep::broadcast(channel.ranks->calls(), state_->space(lane), staging.out(bytes), root));
  return staging.issued(
      state_->issue(Kind::broadcast, lane, group, mine ? bytes.bytes : 0, DType::u8, std::move(operation)));
}

Ticket Transport::send(int lane, int group, int peer, const Region& bytes) {
  NonBlocking& calls = state_->calls_with(lane, group, peer);
  if (state_->stays_on_device(lane, group, {&bytes}))
    return state_->issue_on_device(
        Kind::send, lane, group, bytes.bytes, DType::u8,
        [&](DeviceOperations& device, DeviceRanks* ranks) { device.exchange(ranks, {{peer, all_of(bytes)}}, {}); });
  Staging staging(*state_);
  const std::span<const std::byte> sent = staging.in(bytes);
  return staging.issued(state_->issue(Kind::send, lane, group, bytes.bytes, DType::u8,
                                      staging.around(exchange(calls, state_->space(lane), {{peer, sent}}, {}))));
}

Ticket Transport::receive(int lane, int group, int peer, const Region& bytes, int from) {
  NonBlocking& calls = state_->calls_with(from, group, peer);
  if (state_->stays_on_device(lane, group, {&bytes}))
    return state_->issue_on_device(
        Kind::receive, lane, group, 0, DType::u8,
        [&](DeviceOperations& device, DeviceRanks* ranks) { device.exchange(ranks, {}, {{peer, all_of(bytes)}}); });
  Staging staging(*state_);
  const std::span<std::byte> received = staging.out(bytes);
  return staging.issued(state_->issue(Kind::receive, lane, group, 0, DType::u8,
                                      staging.around(exchange(calls, state_->space(lane), {}, {{peer, received}}))));
}

Ticket Transport::all_to_all_v(int lane, int group, const Region& from, std::span<const std::int64_t> sent,
                               const Region& into, std::span<const std::int64_t> received, DType dtype) {
  const State::Channel& channel = state_->connected(lane, group);
  invariant(sent.size() == channel.members.size() && received.size() == sent.size(),
            "all_to_all_v has a count for each rank of the group");
  invariant(from.bytes == static_cast<std::size_t>(sum_of(sent)) * element_bytes(dtype) &&
                into.bytes == static_cast<std::size_t>(sum_of(received)) * element_bytes(dtype) &&
                sent[channel.rank()] == received[channel.rank()],
            "the buffers of all_to_all_v have the lengths of their counts");
  if (state_->stays_on_device(lane, group, {&from, &into}))
    return state_->issue_on_device(
        Kind::all_to_all_v, lane, group, from.bytes, dtype, [&](DeviceOperations& device, DeviceRanks* ranks) {
          device.exchange(ranks, parts_of(all_of(from), sent, dtype), parts_of(all_of(into), received, dtype));
        });
  Staging staging(*state_);
  const std::span<const std::byte> source = staging.in(from);
  const std::span<std::byte> target = staging.out(into);
  return staging.issued(state_->issue(
      Kind::all_to_all_v, lane, group, from.bytes, dtype,
      staging.around(channel.ranks ? exchange(channel.ranks->calls(), state_->space(lane),
                                              parts_of(source, sent, dtype), parts_of(target, received, dtype))
                                   : copy_alone(source, target))));
}

Ticket Transport::shift(int lane, int group, const Region& from, const Region& into, DType dtype) {
  const State::Channel& channel = state_->connected(lane, group);
  invariant(from.bytes == into.bytes, "both buffers of a shift have the same size");
  const int ranks = static_cast<int>(channel.members.size()), mine = static_cast<int>(channel.rank());
  const int next = (mine + 1) % ranks, before = (mine + ranks - 1) % ranks;
  if (state_->stays_on_device(lane, group, {&from, &into}))
    return state_->issue_on_device(Kind::shift, lane, group, from.bytes, dtype,
                                   [&](DeviceOperations& device, DeviceRanks* there) {
                                     device.exchange(there, {{next, all_of(from)}}, {{before, all_of(into)}});
                                   });
  Staging staging(*state_);
  const std::span<const std::byte> source = staging.in(from);
  const std::span<std::byte> target = staging.out(into);
  Operation operation;
  if (channel.ranks)
    operation = lockstep::exchange(channel.ranks->calls(), state_->space(lane), {{next, source}}, {{before, target}});
  else
    operation = copy_alone(source, target);
  return staging.issued(
      state_->issue(Kind::shift, lane, group, from.bytes, dtype, staging.around(std::move(operation))));
}

Ticket Transport::copy(int lane, int group, std::vector<RegionCopy> copies) {
  for (const RegionCopy& copy : copies)
    invariant(copy.from.bytes == copy.to.bytes, "source and destination of a copy have the same size");
  if (this_device().properties().is_host)
    return state_->issue(Kind::copy, lane, group, 0, DType::u8, copy_regions(std::move(copies)));
  return Staging(*state_).copied(copies, state_->issue(Kind::copy, lane, group, 0, DType::u8, Operation()));
}

void Transport::log_to(TraceLog* log) {
  state_->log = log;
  state_->logged.clear();
}

void Transport::wait(Ticket ticket) {
  if (ticket.number == 0) return;
  const auto entry = std::ranges::find(state_->logged, ticket, &std::pair<Ticket, TraceEntry>::first);
  if (entry != state_->logged.end()) {
    TraceEntry waited = entry->second;
    waited.event = TraceEntry::Event::waited;
    state_->log->add(std::move(waited));
  }
  if (!state_->is_queued(ticket)) state_->wait(ticket);
  state_->bring_back(ticket);
}

void Transport::State::wait(Ticket ticket) {
  const State::Lane& lane = lanes[ticket.number % lanes.size()];
  const std::uint64_t count = ticket.number / lanes.size();
  std::unique_lock lock(mutex);
  invariant(count <= lane.issued, "a ticket belongs to the transport that waits for it");
  if (lane.ended >= count) return;
  ++waiting;
  work.notify_one();  // it may sleep for the sake of a computation
  // The caller waits for other ranks while the lane does. A thread that hangs by itself is this rank's own fault.
  std::optional<Waiting> for_others;
  while (!ends.wait_for(lock, look_at_lane, [&] { return lane.ended >= count; })) {
    if (!lane.waits || works) {
      for_others.reset();
    } else if (!for_others) {
      for_others.emplace();
    }
  }
  --waiting;
}

void Transport::drain() {
  for (std::size_t i = 0; i < state_->lanes.size(); ++i) {
    std::unique_lock lock(state_->mutex);
    const Ticket last{state_->lanes[i].issued * state_->lanes.size() + i};
    lock.unlock();
    if (last.number < state_->lanes.size()) continue;
    state_->wait(last);
    state_->bring_back(last);
  }
  state_->queued.clear();
  if (state_->log == nullptr) return;
  state_->log->add({.event = TraceEntry::Event::drained, .what = {}});
  state_->logged.clear();
}

void Transport::keep(std::shared_ptr<void> memory) {
  const std::lock_guard lock(state_->mutex);
  state_->kept.push_back(std::move(memory));
}

double Transport::busy_s(int lane) const {
  const std::lock_guard lock(state_->mutex);
  return state_->lanes.at(static_cast<std::size_t>(lane)).busy_s;
}

int Transport::group_along(const std::vector<AxisName>& axes) const {
  const auto found = std::ranges::find(state_->groups, axes);
  if (found == state_->groups.end()) fail(ExitCode::bug, "there is no communicator along {}", joined(axes));
  return static_cast<int>(found - state_->groups.begin());
}

const std::vector<Rank>& Transport::members(int group) const { return state_->channel(0, group).members; }

void Transport::take_records(std::vector<OperationRecord>& records) {
  const std::lock_guard lock(state_->mutex);
  state_->records_wanted = true;
  records.clear();
  std::swap(records, state_->records);
}

}  // namespace lockstep
