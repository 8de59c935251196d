#include "comm/operations.hpp"

#include "comm/operation_parts.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep {

using namespace parts;

namespace {

constexpr std::size_t small_reduce = std::size_t{8} << 10;  // bytes up to which one exchange is cheaper than two

Operation reduce_by_messages(NonBlocking& ranks, Workspace& space, std::span<std::byte> bytes, DType dtype,
                             Reduce reduce) {
  const std::size_t size = size_of(ranks), mine = rank_of(ranks);
  const std::size_t stride = size * width_of(dtype);  // one element for each rank
  const std::size_t piece = std::max(piece_bytes / stride, std::size_t{1}) * stride;
  // Each rank gets all operands of its slice, reduces them, and all exchange the results.
  while (bytes.size() > std::max(small_reduce, stride)) {
    const std::span<std::byte> part = bytes.first(std::min(piece, bytes.size() / stride * stride));
    const std::size_t slice = part.size() / size;
    const std::span<std::byte> wire = wire_of(space, part.size());
    space.calls.clear();
    for (std::size_t peer = 0; peer < size; ++peer)
      if (peer != mine) space.calls.push_back(ranks.receive(wire.subspan(peer * slice, slice), static_cast<int>(peer)));
    for (std::size_t peer = 0; peer < size; ++peer)
      if (peer != mine) space.calls.push_back(ranks.send(part.subspan(peer * slice, slice), static_cast<int>(peer)));
    co_await ended(ranks, space.calls);
    ranks.halfway();
    const std::span<std::byte> result = part.subspan(mine * slice, slice);
    point_at_operands(ranks, space, wire, slice);
    space.operands[mine] = result.data();
    reduce_in_order(space.operands, result, dtype, reduce);
    space.calls.assign(1, ranks.all_gather(result, part));
    co_await ended(ranks, space.calls);
    bytes = bytes.subspan(part.size());
  }
  if (bytes.empty()) co_return;
  // What is small or indivisible every rank gets whole and reduces by itself.
  const std::span<std::byte> wire = wire_of(space, bytes.size() * size);
  ranks.halfway();
  space.calls.assign(1, ranks.all_gather(bytes, wire));
  co_await ended(ranks, space.calls);
  point_at_operands(ranks, space, wire, bytes.size());
  reduce_in_order(space.operands, bytes, dtype, reduce);
}

/// Each rank reads the operands of its slice where they are, reduces them, and then reads the other ranks' results.
Operation reduce_directly(NonBlocking& ranks, Workspace& space, std::span<std::byte> bytes, DType dtype,
                          Reduce reduce) {
  const std::size_t size = size_of(ranks), mine = rank_of(ranks), width = width_of(dtype);
  const std::size_t elements = bytes.size() / width;
  start_addresses(ranks, space, bytes.data());
  co_await ended(ranks, space.calls);
  ranks.halfway();
  const std::size_t piece = std::max(piece_bytes / size / width, std::size_t{1024}) * width;
  const std::size_t end = elements * (mine + 1) / size * width;
  for (std::size_t at = elements * mine / size * width; at < end; at += piece) {
    const std::span<std::byte> part = bytes.subspan(at, std::min(piece, end - at));
    const std::span<std::byte> wire = wire_of(space, part.size() * size);
    for (std::size_t peer = 0; peer < size; ++peer) {
      if (peer == mine) continue;
      read(ranks, peer, space.addresses[peer] + at, wire.subspan(peer * part.size(), part.size()));
    }
    point_at_operands(ranks, space, wire, part.size());
    space.operands[mine] = part.data();
    reduce_in_order(space.operands, part, dtype, reduce);
    co_await others_turn;
  }
  start_meeting(ranks, space);  // all slices are reduced
  co_await ended(ranks, space.calls);
  for (std::size_t step = 1; step < size; ++step) {
    const std::size_t peer = (mine + step) % size, peers_end = elements * (peer + 1) / size * width;
    for (std::size_t at = elements * peer / size * width; at < peers_end; at += piece_bytes) {
      read(ranks, peer, space.addresses[peer] + at, bytes.subspan(at, std::min(piece_bytes, peers_end - at)));
      co_await others_turn;
    }
  }
  start_meeting(ranks, space);
  co_await ended(ranks, space.calls);
}

Operation broadcast_by_messages(NonBlocking& ranks, Workspace& space, std::span<std::byte> bytes, int root) {
  ranks.halfway();
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(piece_bytes, bytes.size()))) {
    space.calls.assign(1, ranks.broadcast(bytes.first(std::min(piece_bytes, bytes.size())), root));
    co_await ended(ranks, space.calls);
  }
}

Operation broadcast_directly(NonBlocking& ranks, Workspace& space, std::span<std::byte> bytes, int root) {
  space.addresses.assign(1, address_of(bytes.data()));
  space.calls.assign(1, ranks.broadcast(std::as_writable_bytes(std::span(space.addresses)), root));
  co_await ended(ranks, space.calls);
  ranks.halfway();
  for (std::size_t at = 0; ranks.rank() != root && at < bytes.size(); at += piece_bytes) {
    read(ranks, static_cast<std::size_t>(root), space.addresses.front() + at,
         bytes.subspan(at, std::min(piece_bytes, bytes.size() - at)));
    co_await others_turn;
  }
  start_meeting(ranks, space);
  co_await ended(ranks, space.calls);
}

}  // namespace

Operation all_reduce(NonBlocking& ranks, Workspace& space, std::span<std::byte> bytes, DType dtype, Reduce reduce) {
  return reads_directly(ranks, bytes.size()) ? reduce_directly(ranks, space, bytes, dtype, reduce)
                                             : reduce_by_messages(ranks, space, bytes, dtype, reduce);
}

Operation all_reduce_into(NonBlocking& ranks, Workspace& space, std::span<std::byte> bytes, DType dtype,
                          std::span<std::byte> place, SumInto into) {
  for (Operation sum = all_reduce(ranks, space, bytes, dtype, Reduce::sum); !sum.done(); sum.advance())
    co_await sum.awaits();
  for (Operation put = put_alone(bytes, dtype, place, into); !put.done(); put.advance()) co_await put.awaits();
}

Operation put_alone(std::span<const std::byte> sum, DType dtype, std::span<std::byte> place, SumInto into) {
  const std::size_t width = width_of(dtype), width_there = width_of(into.dtype.value_or(dtype));
  for (std::size_t at = 0; at < sum.size(); at += piece_bytes) {
    const std::span<const std::byte> part = sum.subspan(at, std::min(piece_bytes, sum.size() - at));
    write_sum(part, dtype, place.subspan(at / width * width_there, part.size() / width * width_there), into);
    co_await others_turn;
  }
}

Operation broadcast(NonBlocking& ranks, Workspace& space, std::span<std::byte> bytes, int root) {
  return reads_directly(ranks, bytes.size()) ? broadcast_directly(ranks, space, bytes, root)
                                             : broadcast_by_messages(ranks, space, bytes, root);
}

Operation exchange(NonBlocking& ranks, Workspace& space, std::vector<Part<const std::byte>> sent,
                   std::vector<Part<std::byte>> received) {
  const auto direct = [&](const auto& part) { return reads_directly(ranks, part.bytes.size()); };
  std::vector<std::uint64_t> mine(sent.size()), theirs(received.size());
  std::size_t longest = 0;  // of what goes by messages
  for (Part<const std::byte>& from : sent) {
    for (Part<std::byte>& to : received) {
      if (from.peer != ranks.rank() || to.peer != ranks.rank()) continue;
      for (std::size_t at = 0; at < to.bytes.size(); at += piece_bytes) {
        std::memcpy(to.bytes.data() + at, from.bytes.data() + at, std::min(piece_bytes, to.bytes.size() - at));
        co_await others_turn;
      }
      from.bytes = {};
      to.bytes = {};
    }
  }
  space.calls.clear();
  ranks.halfway();
  for (std::size_t i = 0; i < received.size(); ++i) {
    if (direct(received[i]))
      space.calls.push_back(ranks.receive(bytes_of(theirs[i]), received[i].peer));
    else
      longest = std::max(longest, received[i].bytes.size());
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    mine[i] = address_of(sent[i].bytes.data());
    if (direct(sent[i]))
      space.calls.push_back(ranks.send(bytes_of(mine[i]), sent[i].peer));
    else
      longest = std::max(longest, sent[i].bytes.size());
  }
  co_await ended(ranks, space.calls);
  for (std::size_t at = 0; at < longest; at += piece_bytes) {
    const auto piece_of = [&](const auto& part) {
      const bool over = direct(part) || part.bytes.size() <= at;
      return over ? part.bytes.first(0) : part.bytes.subspan(at, std::min(piece_bytes, part.bytes.size() - at));
    };
    space.calls.clear();
    for (const Part<std::byte>& part : received)
      if (!piece_of(part).empty()) space.calls.push_back(ranks.receive(piece_of(part), part.peer));
    for (const Part<const std::byte>& part : sent)
      if (!piece_of(part).empty()) space.calls.push_back(ranks.send(piece_of(part), part.peer));
    co_await ended(ranks, space.calls);
  }
  for (std::size_t i = 0; i < received.size(); ++i) {
    const std::span<std::byte> bytes = received[i].bytes;
    for (std::size_t at = 0; direct(received[i]) && at < bytes.size(); at += piece_bytes) {
      read(ranks, static_cast<std::size_t>(received[i].peer), theirs[i] + at,
           bytes.subspan(at, std::min(piece_bytes, bytes.size() - at)));
      co_await others_turn;
    }
  }
  // Who has read says so: then the sender's memory is its own again. A receipt is no data of an exchange the other way.
  space.calls.clear();
  for (std::size_t i = 0; i < received.size(); ++i)
    if (direct(received[i])) space.calls.push_back(ranks.send(bytes_of(theirs[i]), received[i].peer, Message::receipt));
  for (std::size_t i = 0; i < sent.size(); ++i)
    if (direct(sent[i])) space.calls.push_back(ranks.receive(bytes_of(mine[i]), sent[i].peer, Message::receipt));
  co_await ended(ranks, space.calls);
}

}  // namespace lockstep
