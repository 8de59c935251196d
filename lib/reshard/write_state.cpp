#include "reshard/write_state.hpp"

#include "base/error.hpp"
#include "base/rounding.hpp"
#include "comm/together.hpp"
#include "reshard/cast.hpp"
#include "store/piece_numbers.hpp"
#include "store/piece_pass.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace lockstep {

namespace {

constexpr std::uint64_t batch_bytes = std::uint64_t{64} << 20;  // enough for all threads that write

std::uint64_t bytes_in(const Box& box, DType dtype) {
  return static_cast<std::uint64_t>(elements(box)) * static_cast<std::uint64_t>(size_of(dtype));
}

/// One tensor on its way from the source to the new state: in the view and type that it will have.
class TensorPass {
 public:
  TensorPass(const StateSource& source, const NewState& state, std::size_t tensor)
      : source_(source),
        number_(state.sources[tensor]),
        from_(source.read_type(number_)),
        to_(state.tensors[tensor].layout) {}

  void read(const std::vector<StateBox>& boxes) {
    if (from_ == to_.dtype) return source_.read(number_, to_.global, boxes);
    std::uint64_t bytes = 0;
    for (const StateBox& wanted : boxes) bytes += bytes_in(wanted.box, from_);
    uncast_.resize(bytes);
    std::vector<StateBox> uncast;
    for (std::span<std::byte> left = uncast_; const StateBox& wanted : boxes) {
      uncast.push_back({wanted.box, left.first(bytes_in(wanted.box, from_))});
      left = left.subspan(uncast.back().bytes.size());
    }
    source_.read(number_, to_.global, uncast);
    for (std::size_t i = 0; i < boxes.size(); ++i) cast(from_, uncast[i].bytes, to_.dtype, boxes[i].bytes);
  }

  bool is_cut(const Box& box, std::uint64_t memory) const {
    return memory_of_whole(box) + memory_of_blocks(box) > memory;
  }

  /// Elements of a stretch of a piece that is cut: beside it there are a block to write and those of the source.
  std::int64_t stretch_elements(const Box& box, std::uint64_t memory) const {
    const std::uint64_t left = std::max(memory, least_memory_of(source_)) - blocks();
    return static_cast<std::int64_t>(std::max<std::uint64_t>(1, left / bytes_an_element(box)));
  }

  /// What a piece takes, whole or cut, beside the blocks that the source holds.
  std::uint64_t memory_of(const Box& box, std::uint64_t memory) const {
    if (!is_cut(box, memory)) return memory_of_whole(box);
    return static_cast<std::uint64_t>(stretch_elements(box, memory)) * bytes_an_element(box) + block_bytes;
  }

  /// Those.
  std::uint64_t memory_of_blocks(const Box& box) const {
    return static_cast<std::uint64_t>(source_.blocks()) * std::min(block_bytes, bytes_in(box, from_));
  }

 private:
  std::uint64_t blocks() const { return (1 + static_cast<std::uint64_t>(source_.blocks())) * block_bytes; }

  /// Bytes in memory for each element that is read at once: of its new type, of its old one if that is another, and
  /// what the source takes.
  std::uint64_t bytes_an_element(const Box& box) const {
    const auto uncast = static_cast<std::uint64_t>(from_ == to_.dtype ? 0 : size_of(from_));
    return static_cast<std::uint64_t>(size_of(to_.dtype)) + uncast + source_.working_bytes(number_, to_.global, box);
  }

  /// Of a piece that is read whole: it, and what it is made of.
  std::uint64_t memory_of_whole(const Box& box) const {
    return static_cast<std::uint64_t>(elements(box)) * bytes_an_element(box);
  }

  const StateSource& source_;
  std::size_t number_;
  DType from_;
  const Layout& to_;
  std::vector<std::byte> uncast_;
};

std::vector<Portion> portions_of(const ProcessShare& share) {
  std::vector<Portion> portions;
  for (const PieceBatch& batch : share.batches) portions.push_back(batch.portion);
  return portions;
}

std::uint64_t memory_beside_blocks(const ProcessShare& share, std::uint64_t memory) {
  return memory - std::min(memory, share.blocks_memory);
}

/// Where the bytes of a piece lie among those of its batch: each begins at a page, as what goes around the page cache
/// has to.
std::uint64_t room_in_batch(std::uint64_t bytes) { return rounded_up(bytes, page_bytes); }

// Stretches are no multiples of blocks, so a block is filled from several of them.
PieceRecord write_in_stretches(TensorPass& source, const PartPiece& piece, const PiecePlace& place,
                               std::int64_t most_elements) {
  PieceRecord record{.offset = place.offset};
  const std::int64_t size = size_of(piece.dtype);
  std::vector<std::byte> block, stretch;
  std::uint64_t written = 0;
  const auto write_block = [&] {
    place.part->write_through(block, place.offset + written);
    record.blocks.push_back(hash128(block));
    record.fingerprint +=
        fingerprint(piece.global, piece.dtype, piece.box, block, static_cast<std::int64_t>(written) / size);
    written += block.size();
    block.clear();
  };
  block.reserve(block_bytes);
  for_each_stretch(piece.box, most_elements, [&](const Box& box) {
    stretch.resize(bytes_in(box, piece.dtype));
    source.read({{box, stretch}});
    for (std::span<const std::byte> left = stretch; !left.empty();) {
      const std::size_t count = std::min<std::size_t>(left.size(), block_bytes - block.size());
      block.insert(block.end(), left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count));
      left = left.subspan(count);
      if (block.size() == block_bytes) write_block();
    }
  });
  if (!block.empty()) write_block();
  return record;
}

/// The parts on their way to the disk.
class PartsWriter {
 public:
  PartsWriter(Session& session, const StateSource& source, const NewState& state, const CheckpointPlan& plan,
              const Path& staging, std::uint64_t memory)
      : session_(session),
        source_(source),
        state_(state),
        plan_(plan),
        staging_(staging),
        memory_(memory),
        share_(share_out(source, state, plan, memory, session.world().size())
                   .at(static_cast<std::size_t>(session.world().rank()))) {}

  StagedState write() {
    lay_out();
    write_share();
    return seal();
  }

 private:
  Communicator& ranks() { return session_.world(); }
  void lay_out();
  void write_share();
  void read(const PieceBatch& batch, std::span<std::byte> out) const;
  void write(const PieceBatch& batch, std::span<const std::byte> bytes);
  void write_in_rows(std::size_t number);
  PiecePlace place_of(std::size_t number);
  void finish_parts();
  StagedState seal();

  Session& session_;
  const StateSource& source_;
  const NewState& state_;
  const CheckpointPlan& plan_;
  const Path& staging_;
  const std::uint64_t memory_;
  const ProcessShare share_;               // of this rank
  std::vector<StampedPart> stamped_;       // by file, on rank 0
  Numbers offsets_;                        // by piece, in its file
  std::vector<PieceRecord> records_;       // by piece: on rank 0 all in the end, elsewhere those of this rank
  std::map<std::size_t, PartFile> parts_;  // that are being written, by file
};

void PartsWriter::lay_out() {
  const std::string told = run_on_rank0(ranks(), "", [&] {
    session_.enter(Phase::save_stage);
    Numbers offsets(plan_.pieces.size());
    for (const PlannedFile& file : plan_.files) {
      stamped_.push_back(stamp_part(staging_ / file.path, part_pieces(plan_, file)));
      for (std::size_t i = 0; i < file.pieces.size(); ++i)
        offsets[file.pieces[i]] = stamped_.back().table.records[i].offset;
    }
    return encode(offsets);
  });
  offsets_ = decode_numbers(told);
  records_.resize(plan_.pieces.size());
}

void PartsWriter::write_share() {
  constexpr std::uint64_t bytes_a_round = std::uint64_t{256} << 20;
  const std::vector<PieceBatch>& batches = share_.batches;
  FilledAhead ahead(portions_of(share_), memory_beside_blocks(share_, memory_),
                    [&](std::size_t batch, std::span<std::byte> out) { read(batches[batch], out); });
  std::size_t done = 0;
  for (std::int64_t left = 1; left > 0;) {
    together(ranks(), "", [&] {
      session_.enter(Phase::save_write);
      for (std::uint64_t bytes = 0; done < batches.size() && bytes < bytes_a_round; ++done) {
        end_if_stopped(session_);
        const std::span<const std::byte> held = ahead.next();
        write(batches[done], held);
        ahead.release();
        bytes += std::max<std::uint64_t>(held.size(), 1);
      }
      if (done == batches.size()) finish_parts();
    });
    left = ranks().all_reduce(static_cast<std::int64_t>(batches.size() - done), Reduce::max);
  }
}

// On a thread of its own, while the batch before is written.
void PartsWriter::read(const PieceBatch& batch, std::span<std::byte> out) const {
  const std::size_t end = batch.first + batch.count;
  for (std::size_t i = batch.first; i < end;) {
    const std::size_t tensor = plan_.pieces[share_.pieces[i]].tensor;
    std::vector<StateBox> boxes;
    for (; i < end && plan_.pieces[share_.pieces[i]].tensor == tensor; ++i) {
      const std::uint64_t bytes = bytes_of(part_piece(plan_, share_.pieces[i]));
      boxes.push_back({plan_.pieces[share_.pieces[i]].box, out.first(bytes)});
      out = out.subspan(std::min<std::uint64_t>(room_in_batch(bytes), out.size()));
    }
    TensorPass(source_, state_, tensor).read(boxes);
  }
}

void PartsWriter::write(const PieceBatch& batch, std::span<const std::byte> bytes) {
  if (batch.in_rows) return write_in_rows(share_.pieces[batch.first]);
  std::vector<HeldPiece> held;
  for (std::size_t i = batch.first; i < batch.first + batch.count; ++i) {
    const std::size_t number = share_.pieces[i];
    const PartPiece piece = part_piece(plan_, number);
    held.push_back({piece, bytes.first(bytes_of(piece)), place_of(number)});
    bytes = bytes.subspan(std::min<std::uint64_t>(room_in_batch(held.back().bytes.size()), bytes.size()));
  }
  std::vector<PieceRecord> records = pass_over(held);
  for (std::size_t i = 0; i < batch.count; ++i) records_[share_.pieces[batch.first + i]] = std::move(records[i]);
}

void PartsWriter::write_in_rows(std::size_t number) {
  const PartPiece piece = part_piece(plan_, number);
  TensorPass pass(source_, state_, plan_.pieces[number].tensor);
  records_[number] = write_in_stretches(pass, piece, place_of(number), pass.stretch_elements(piece.box, memory_));
}

PiecePlace PartsWriter::place_of(std::size_t number) {
  const std::size_t file = plan_.file_of_piece[number];
  if (!parts_.empty() && parts_.begin()->first / parts_at_a_time != file / parts_at_a_time) finish_parts();
  const auto part = parts_.try_emplace(file, staging_ / plan_.files[file].path).first;
  return {&part->second, offsets_[number]};
}

void PartsWriter::finish_parts() {
  for (auto& [file, part] : parts_) part.finish();
  parts_.clear();
}

StagedState PartsWriter::seal() {
  Numbers written;
  for (const std::size_t piece : share_.pieces) add_record(written, piece, records_[piece]);
  for (const std::string& text : ranks().gather(encode(written), 0)) take_records(decode_numbers(text), records_);
  StagedState staged;
  together(ranks(), "", [&] {
    session_.enter(Phase::save_seal);
    if (ranks().rank() != 0) return;
    staged.tensors.resize(plan_.tensors.size());
    for (std::size_t i = 0; i < plan_.pieces.size(); ++i)
      staged.tensors[plan_.pieces[i].tensor] += records_[i].fingerprint;
    for (std::size_t file = 0; file < plan_.files.size(); ++file) {
      std::vector<PieceRecord> records;
      for (const std::size_t piece : plan_.files[file].pieces) records.push_back(std::move(records_[piece]));
      staged.files.push_back(seal_part(staging_ / plan_.files[file].path, std::move(stamped_[file]), records));
    }
  });
  return staged;
}

/// The pieces of the parts that are written at a time, tensor by tensor and row by row.
std::vector<std::size_t> in_order(const CheckpointPlan& plan) {
  std::vector<std::size_t> order;
  for (std::size_t first = 0; first < plan.files.size(); first += parts_at_a_time) {
    const auto begin = std::ssize(order);
    for (std::size_t file = first; file < std::min(first + parts_at_a_time, plan.files.size()); ++file)
      order.insert(order.end(), plan.files[file].pieces.begin(), plan.files[file].pieces.end());
    std::ranges::sort(order.begin() + begin, order.end(), {}, [&](std::size_t number) {
      return std::pair<std::size_t, const Shape&>(plan.pieces[number].tensor, plan.pieces[number].box.begin);
    });
  }
  return order;
}

std::size_t group_of(const CheckpointPlan& plan, std::size_t piece) {
  return plan.file_of_piece[piece] / parts_at_a_time;
}

/// How many of the next pieces are of one tensor and have rows in common.
std::size_t with_common_rows(const CheckpointPlan& plan, std::span<const std::size_t> next) {
  const auto rows_end = [](const Box& box) { return box.extent.empty() ? 0 : box.begin[0] + box.extent[0]; };
  const WriteItem& first = plan.pieces[next.front()];
  std::int64_t end = rows_end(first.box);
  std::size_t count = 1;
  for (; count < next.size(); ++count) {
    const WriteItem& piece = plan.pieces[next[count]];
    const bool follows = piece.tensor == first.tensor && group_of(plan, next[count]) == group_of(plan, next.front());
    if (!follows || piece.box.begin.empty() || piece.box.begin[0] >= end) break;
    end = std::max(end, rows_end(piece.box));
  }
  return count;
}

/// Pieces with common rows are in one batch if memory allows several of its size at a time; others join them where they
/// are few.
void make_batches(ProcessShare& share, const StateSource& source, const NewState& state, const CheckpointPlan& plan,
                  std::uint64_t memory) {
  const std::uint64_t most = memory / (portions_in_work + 1), few = std::min(batch_bytes, most);
  std::vector<PieceBatch>& batches = share.batches;
  for (std::size_t first = 0, count = 0; first < share.pieces.size(); first += count) {
    const std::span<const std::size_t> next = std::span(share.pieces).subspan(first);
    count = with_common_rows(plan, next);
    std::vector<PieceBatch> pieces;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const WriteItem& piece = plan.pieces[next[i]];
      const TensorPass pass(source, state, piece.tensor);
      const bool in_rows = pass.is_cut(piece.box, memory);
      const std::uint64_t room = room_in_batch(bytes_in(piece.box, state.tensors[piece.tensor].layout.dtype));
      pieces.push_back({first + i, 1, in_rows, {in_rows ? 0 : room, pass.memory_of(piece.box, memory)}});
      bytes += pieces.back().portion.memory;
      share.blocks_memory = std::max(share.blocks_memory, pass.memory_of_blocks(piece.box));
    }
    bool opens = batches.empty() || batches.back().portion.memory + bytes > few ||
                 group_of(plan, share.pieces[batches.back().first]) != group_of(plan, next.front());
    for (const PieceBatch& piece : pieces) {
      if (opens || piece.in_rows || batches.back().in_rows ||
          batches.back().portion.memory + piece.portion.memory > most) {
        batches.push_back(piece);
      } else {
        ++batches.back().count;
        batches.back().portion.bytes += piece.portion.bytes;
        batches.back().portion.memory += piece.portion.memory;
      }
      opens = false;
    }
  }
}

const StoredComponent& component_of(const NewState& state, const StoredTensor& tensor) {
  const auto found = std::ranges::find(state.facts.components, tensor.component, &StoredComponent::key);
  invariant(found != state.facts.components.end(), "a tensor that is kept has its component");
  return *found;
}

/// By tensor.
std::vector<std::vector<Holding>> holders_on_mesh(const NewState& state) {
  const int ranks = world_size(state.facts.mesh);
  std::vector<std::vector<Holding>> holdings;
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const StoredTensor& tensor = state.tensors[i];
    // Neighbours mostly share a layout, and its holders cost a pass over all ranks.
    const bool like_last = i > 0 && tensor.cell.empty() && !is_values(tensor) && !is_values(state.tensors[i - 1]) &&
                           state.tensors[i - 1].component == tensor.component &&
                           state.tensors[i - 1].layout == tensor.layout;
    holdings.push_back(like_last ? holdings.back() : holders_of(tensor, component_of(state, tensor), ranks));
  }
  return holdings;
}

}  // namespace

CheckpointPlan plan_parts(const NewState& state, int parts) {
  std::vector<Rank> writers(static_cast<std::size_t>(parts));
  std::iota(writers.begin(), writers.end(), 0);
  std::vector<std::vector<Holding>> holdings;
  for (const StoredTensor& tensor : state.tensors) {
    const Box box = whole(tensor.layout.global);
    holdings.push_back(empty(box) ? std::vector<Holding>{} : std::vector<Holding>{{box, writers}});
  }
  return plan_checkpoint(state.tensors, holdings, state.facts.components, writers);
}

CheckpointPlan plan_ranks(const NewState& state, int parts) {
  const int ranks = world_size(state.facts.mesh);
  std::vector<int> part_of_rank;
  for (std::int64_t rank = 0; rank < ranks; ++rank) part_of_rank.push_back(static_cast<int>(rank * parts / ranks));
  return plan_checkpoint(state.tensors, holders_on_mesh(state), state.facts.components, part_of_rank);
}

std::vector<std::uint64_t> bytes_held(const NewState& state) {
  std::vector<std::uint64_t> bytes(static_cast<std::size_t>(world_size(state.facts.mesh)), 0);
  const std::vector<std::vector<Holding>> holdings = holders_on_mesh(state);
  for (std::size_t i = 0; i < holdings.size(); ++i)
    for (const Holding& holding : holdings[i])
      for (const Rank rank : holding.ranks)
        bytes[static_cast<std::size_t>(rank)] += bytes_in(holding.box, state.tensors[i].layout.dtype);
  return bytes;
}

void for_each_stretch(const Box& box, std::int64_t most_elements, const std::function<void(const Box&)>& visit) {
  const std::int64_t count = elements(box);
  if (count == 0) return;
  if (count <= most_elements || count == 1) return visit(box);
  const auto longer = std::ranges::find_if(box.extent, [](std::int64_t extent) { return extent > 1; });
  const auto dim = static_cast<std::size_t>(longer - box.extent.begin());
  const std::int64_t at_once = std::max<std::int64_t>(1, most_elements / (count / box.extent[dim]));
  for (std::int64_t first = 0; first < box.extent[dim]; first += at_once) {
    Box part = box;
    part.begin[dim] += first;
    part.extent[dim] = std::min(at_once, box.extent[dim] - first);
    for_each_stretch(part, most_elements, visit);
  }
}

std::uint64_t least_memory_of(const StateSource& source) {
  return (2 + static_cast<std::uint64_t>(source.blocks())) * block_bytes;
}

std::vector<ProcessShare> share_out(const StateSource& source, const NewState& state, const CheckpointPlan& plan,
                                    std::uint64_t memory, int processes) {
  std::vector<ProcessShare> shares(static_cast<std::size_t>(processes));
  const double all = static_cast<double>(std::max<std::uint64_t>(total_bytes(plan), 1));
  std::uint64_t before = 0;
  for (const std::size_t number : in_order(plan)) {
    const WriteItem& piece = plan.pieces[number];
    const std::uint64_t bytes = bytes_in(piece.box, state.tensors[piece.tensor].layout.dtype);
    const double middle = (static_cast<double>(before) + static_cast<double>(bytes) / 2) / all;
    before += bytes;
    ProcessShare& share = shares[std::min(shares.size() - 1, static_cast<std::size_t>(middle * processes))];
    share.bytes += bytes;
    share.pieces.push_back(number);
  }
  for (ProcessShare& share : shares) {
    make_batches(share, source, state, plan, memory);
    share.peak_memory = most_in_work(portions_of(share), memory_beside_blocks(share, memory)) + share.blocks_memory;
  }
  return shares;
}

StagedState write_parts(Session& session, const StateSource& source, const NewState& state, const CheckpointPlan& plan,
                        const Path& staging, std::uint64_t memory) {
  return PartsWriter(session, source, state, plan, staging, memory).write();
}

}  // namespace lockstep
