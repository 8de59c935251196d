#include "checkpoint/save_stages.hpp"

#include "base/error.hpp"
#include "base/no_room.hpp"
#include "base/run_clock.hpp"
#include "base/text.hpp"
#include "checkpoint/node_view.hpp"
#include "comm/together.hpp"
#include "device/device.hpp"
#include "store/piece_pass.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

namespace lockstep {

void Saver::Save::enter() const {
  if (!request_.enter) return;
  switch (stage_) {
    case Stage::clearing: return request_.enter(Phase::save_stage);
    case Stage::staging: return request_.storage.is_shared() ? request_.enter(Phase::save_stage) : void();
    case Stage::writing: return request_.enter(Phase::save_write);
    case Stage::sealing: return request_.enter(Phase::save_seal);
    case Stage::committing: return request_.enter(Phase::save_commit);
    case Stage::laying_out:
    case Stage::distributing:
    case Stage::publishing:
    case Stage::tidying:
    case Stage::committed: return;
  }
}

std::string Saver::Save::text() const {
  constexpr std::array words{"staging",    "staging",    "laying out", "writing",    "sealing",
                             "committing", "committing", "committing", "committing", "committing"};
  return fmt::format("{} the checkpoint of step {}", words[static_cast<std::size_t>(stage_)], request_.step);
}

void Saver::Save::work() {
  try {
    switch (stage_) {
      case Stage::clearing: return clear();
      case Stage::staging: return make_folders();
      case Stage::laying_out: return stamp();
      case Stage::writing: return write();
      case Stage::sealing: return seal();
      case Stage::committing: return commit();
      case Stage::distributing: return distribute();
      case Stage::publishing: return publish();
      case Stage::tidying: return tidy();
      case Stage::committed: return;
    }
  } catch (const NoRoom&) {
    lacked_room_ = true;
    throw;
  }
}

void Saver::Save::exchange() {
  switch (stage_) {
    case Stage::clearing: return agree_on_room();
    case Stage::laying_out: return tell_offsets();
    case Stage::writing: return compare();
    case Stage::sealing: return gather_sealed();
    case Stage::committing: return tell_head();
    case Stage::publishing: return choose_retired();
    case Stage::tidying: return gather_problems();
    case Stage::distributing:
    case Stage::staging:
    case Stage::committed: return;
  }
}

// All ranks enter before one begins: rank 0 does not commit what another then fails.
void Saver::Save::do_stage() {
  together(ranks_, text(), [&] { enter(); });
  together(ranks_, text(), [&] { work(); });
  end_stage();
}

void Saver::Save::start_stage() {
  together(ranks_, text(), [&] { enter(); });
  background_.start([this] { work(); });
}

void Saver::Save::enter_again() {
  together(ranks_, text(), [&] { enter(); });
}

bool Saver::Save::is_done(bool wait) {
  while (wait && background_.under_way()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::int64_t done = background_.under_way() ? 0 : 1;
  if (ranks_.all_reduce(done, Reduce::min) == 0) return false;
  together(ranks_, text(), [&] { background_.finish(); });
  return true;
}

// Parts that were laid out before are stamped where they are written.
void Saver::Save::end_stage() {
  exchange();
  stage_ = static_cast<Stage>(static_cast<int>(stage_) + 1);
  if (stage_ == Stage::laying_out && prepared_.laid_out) stage_ = Stage::writing;
  if (stage_ == Stage::distributing && request_.storage.is_shared()) stage_ = Stage::committed;
}

void Saver::Save::go_on_to_writing() {
  while (!at_writing()) {
    is_done(true);
    end_stage();
    if (!at_writing()) start_stage();
  }
}

void Saver::Save::abandon() noexcept {
  try {
    background_.finish();
  } catch (...) {  // a failure is told already
  }
  parts_.clear();
  if (!keeps() || staging_.empty()) return;
  try {
    if (published_) take_back(staging_, checkpoint(), displaced_);
  } catch (...) {  // it lacks what other nodes have not published: a start passes over it
  }
  abandon_staging(staging_);
}

void Saver::Save::agree() {
  // Another rank's idea of step or folder would scatter the parts.
  agree_equal(ranks_, "the step and folder of the checkpoint",
              fmt::format("{} {}", request_.step, request_.run.string()));
  uuid_ = run_on_rank0(ranks_, "naming the checkpoint", make_uuid);
  staging_ = staging_folder(request_.run, request_.step, uuid_);
}

// Where nodes have storage of their own, which older checkpoints go for want of room on one of them follows from what
// all of them have.
void Saver::Save::clear() {
  if (!keeps()) return;
  try {
    has_room_ = clear_room(request_.run, prepared_.bytes_here, room_is_scarce_, request_.trash);
  } catch (const Error&) {  // what cannot be removed is told after the commit, by which it is tried again
  }
}

void Saver::Save::agree_on_room() {
  if (ranks_.all_reduce(std::int64_t{has_room_ ? 1 : 0}, Reduce::min) == 1) return;
  together(ranks_, text(), [&] { note_older(); });
  retired_ = choose_victims(without_one(request_.retention), false);
}

// What killed jobs left behind must not be what a save fails for. Where that is not enough, older checkpoints go as if
// the new one were there, but never the newest sound one.
void Saver::Save::make_folders() {
  if (!keeps()) return;
  if (request_.storage.is_shared()) {
    retired_ = make_room(request_.run, prepared_.bytes_here, room_is_scarce_, request_.retention, request_.trash);
  } else if (!retired_.empty()) {
    std::vector<std::string> problems;  // are told after the commit, by which it is tried again
    remove_steps(request_.run, retired_, problems);
    attempt(problems, [&] { empty_trash_now(request_.run, request_.trash); });
  }
  make_staging(staging_, plan_.folders, prepared_.bytes_here);
}

// The folders are rank 0's, which another machine may see late.
Path Saver::Save::part_path(std::size_t file) const {
  Path path = staging_ / plan_.files[file].path;
  await_folder(path.parent_path(), request_.patience_s);
  return path;
}

// Other writers of a part may have opened it already.
void Saver::Save::stamp() {
  if (stamped_) return;
  for (std::size_t i = 0; i < plan_.files.size(); ++i) {
    if (!leads(i)) continue;
    const Path path = part_path(i);
    std::optional<PartImage>& image = prepared_.images[i];
    if (image)
      stamp_part(path, *image);
    else
      image = image_of(path, stamp_part(path, part_pieces(plan_, plan_.files[i])));
  }
  stamped_ = true;
}

// The leaders tell the others where their pieces go.
void Saver::Save::tell_offsets() {
  Numbers offsets;
  for (std::size_t i = 0; i < plan_.files.size(); ++i) {
    if (!leads(i)) continue;
    const std::vector<PieceRecord>& records = prepared_.images[i]->stamped.table.records;
    for (std::size_t k = 0; k < records.size(); ++k)
      offsets.insert(offsets.end(), {plan_.files[i].pieces[k], records[k].offset});
  }
  prepared_.offsets.assign(plan_.pieces.size(), 0);
  for (const std::string& text : prepared_.part->all_gather(encode(offsets))) {
    const Numbers numbers = decode_numbers(text);
    for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) prepared_.offsets[numbers[i]] = numbers[i + 1];
  }
  prepared_.laid_out = true;
}

void Saver::Save::find_bytes() {
  memory_ = memory_of_rank(prepared_);
  bytes_.resize(memory_.size());
  for (std::size_t i = 0; i < memory_.size(); ++i)
    if (is_host_memory(memory_[i])) bytes_[i] = host_bytes(memory_[i]);
  up_to_ = bytes_.size();
  parts_.resize(plan_.files.size());
  pieces_.resize(plan_.pieces.size());
  evidence_.resize(plan_.pieces.size());
}

// One pass over the pieces that may be written.
void Saver::Save::write() {
  stamp();
  std::vector<std::size_t> numbers;
  std::vector<HeldPiece> held;
  std::uint64_t bytes = 0;
  for (std::size_t k = written_; k < up_to_; ++k) {
    const std::size_t i = prepared_.mine[k];
    const bool writes = plan_.pieces[i].writer == ranks_.rank();
    if (!writes && prepared_.compared[i] < Validation::tensor) continue;
    const std::size_t file = plan_.file_of_piece[i];
    numbers.push_back(i);
    held.push_back({part_piece(plan_, i), bytes_[k], {}});
    if (!writes) {
      compared_bytes_ += bytes_[k].size();
      continue;
    }
    if (!parts_[file]) parts_[file] = std::make_unique<PartFile>(part_path(file));
    held.back().place = {parts_[file].get(), prepared_.offsets[i]};
    bytes += bytes_[k].size();
  }
  try {
    std::vector<PieceRecord> records = pass_over(held);
    for (std::size_t k = 0; k < held.size(); ++k) pieces_[numbers[k]] = std::move(records[k]);
    if (all_in_use()) {
      for (const auto& part : parts_)
        if (part) part->finish();
      parts_.clear();
    }
  } catch (const NoRoom& error) {
    throw with_room(error, staging_, bytes);
  }
  for (std::size_t k = written_; k < up_to_; ++k) {
    const std::size_t i = prepared_.mine[k];
    if (prepared_.compared[i] == Validation::none || !prepared_.held[i] || prepared_.holders[i] == 1) continue;
    evidence_[i] = evidence_of(prepared_.compared[i],
                               prepared_.compared[i] < Validation::tensor ? Fingerprint{} : pieces_[i].fingerprint,
                               bytes_[k], request_.share);
    for (const auto& part : compared_parts(prepared_.compared[i], bytes_[k], request_.share))
      compared_bytes_ += part.bytes;
  }
  written_ = up_to_;
}

// What is not the last wave: the caller's state may not change before all ranks have written theirs.
void Saver::Save::write_wave() {
  together(ranks_, text(), [&] { work(); });
}

void Saver::Save::compare() {
  std::vector<HeldBox> boxes;
  for (std::size_t k = 0; k < prepared_.mine.size(); ++k) {
    const std::size_t i = prepared_.mine[k];
    const WriteItem& piece = plan_.pieces[i];
    boxes.push_back(
        {piece.tensor, piece.box, prepared_.holders[i], piece.writer == ranks_.rank(), evidence_[i], bytes_[k]});
  }
  compare_holders_in_pieces(ranks_, collected_, boxes, plan_.piece_bytes);
  state_.tensors.assign(plan_.tensors.size(), {});
  Numbers written;  // of the pieces in files that another rank seals
  for (std::size_t i = 0; i < plan_.pieces.size(); ++i) {
    if (plan_.pieces[i].writer != ranks_.rank()) continue;
    const PieceRecord& record = pieces_[i];
    state_.tensors[plan_.pieces[i].tensor] += record.fingerprint;
    if (!leads(plan_.file_of_piece[i])) add_record(written, i, record);
  }
  add_up(ranks_, state_.tensors);
  for (const std::string& text : prepared_.part->all_gather(encode(written)))
    take_records(decode_numbers(text), pieces_);
}

void Saver::Save::seal() {
  for (std::size_t i = 0; i < plan_.files.size(); ++i) {
    if (!leads(i)) continue;
    std::vector<PieceRecord> records;
    for (const std::size_t piece : plan_.files[i].pieces) records.push_back(pieces_[piece]);
    const Path path = staging_ / plan_.files[i].path;
    const StampedPart& stamped = prepared_.images[i]->stamped;
    const SealedPart part = seal_part(path, stamped, records);
    if (request_.read_back) {
      for (std::size_t k = 0; k < records.size(); ++k) records[k].offset = stamped.table.records[k].offset;
      read_back(path, part, stamped.table.pieces, records);
    }
    sealed_.insert(sealed_.end(),
                   {part.bytes, part.hash.high, part.hash.low, part.table_hash.high, part.table_hash.low});
    for (const ByteRange& column : part.columns) sealed_.insert(sealed_.end(), {column.offset, column.bytes});
  }
}

void Saver::Save::gather_sealed() {
  state_.files.resize(prepared_.files.size());
  sealed_.push_back(compared_bytes_);
  compared_bytes_ = 0;
  const std::vector<std::string> told = ranks_.gather(encode(sealed_), 0);
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    const Numbers numbers = decode_numbers(told[rank]);
    compared_bytes_ += numbers.back();
    std::size_t i = 0;
    for (const std::size_t file : prepared_.led[rank]) {
      SealedPart& part = state_.files[file];
      part = {numbers[i], {numbers[i + 1], numbers[i + 2]}, {numbers[i + 3], numbers[i + 4]}, {}};
      i += 5;
      for (ByteRange& column : part.columns) {
        column = {numbers[i], numbers[i + 1]};
        i += 2;
      }
    }
  }
}

// On storage that all ranks see the commit is rank 0's rename. Where nodes have storage of their own it is ready then
// to be told to the others.
void Saver::Save::commit() {
  if (ranks_.rank() != 0) return;
  Manifest facts;
  facts.step = request_.step;
  facts.uuid = uuid_;
  facts.mesh = request_.world.mesh;
  facts.nodes = nodes_of(request_.world);
  facts.components = collected_.components;
  facts.metrics = request_.metrics;
  facts.documents = request_.documents;
  digest_ = seal_checkpoint(staging_, plan_.tensors, prepared_.files, state_, std::move(facts), request_.patience_s)
                .state_digest;
  if (!request_.storage.is_shared()) {
    head_ = read_head(staging_);
    return;
  }
  const Committed done = commit_staged(staging_, request_.run, request_.step, request_.retention, request_.trash);
  retired_.insert(retired_.end(), done.pruned.begin(), done.pruned.end());
  note_report(done.problems);
}

void Saver::Save::note_report(const std::vector<std::string>& problems) {
  std::uint64_t bytes = 0;
  for (const SealedPart& file : state_.files) bytes += file.bytes;
  told_ = to_text(Json{{"digest", to_hex(digest_)},
                       {"bytes", bytes},
                       {"compared_bytes", compared_bytes_},
                       {"pruned", retired_},
                       {"problem", join(problems, "; ")}});
}

void Saver::Save::tell_head() {
  if (request_.storage.is_shared()) {
    told_ = ranks_.broadcast(told_, 0);
  } else if (prepared_.keepers) {
    head_.manifest = prepared_.keepers->broadcast(head_.manifest, 0);
    head_.index = prepared_.keepers->broadcast(head_.index, 0);
  }
}

// What is left to do when all have come through here is a rename.
void Saver::Save::distribute() {
  if (!keeps()) return;
  copy_head(staging_, head_, request_.storage.node_of(ranks_.rank()));
  note_older();
}

void Saver::Save::note_older() {
  older_ = Json::object();
  if (!keeps()) return;
  for (const CheckpointEntry& entry : list_checkpoints(request_.run))
    older_[std::to_string(entry.step)] = encode_sighting(see_checkpoint(entry.path));
}

void Saver::Save::publish() {
  if (!keeps()) return;
  displaced_ = publish_checkpoint(staging_, checkpoint());
  published_ = true;
}

// What older checkpoints are worth follows from what all nodes have of them.
std::vector<std::int64_t> Saver::Save::choose_victims(const Retention& retention, bool committed) {
  if (!prepared_.keepers) return {};
  const std::vector<std::string> told = prepared_.keepers->gather(to_text(older_), 0);
  std::vector<std::string> problems;
  Json victims = Json::array();
  if (ranks_.rank() == 0) {
    std::vector<Json> seen;
    for (const std::string& text : told) seen.push_back(parse_json(text, "the checkpoints of a node"));
    const auto verdict = [&](const CheckpointEntry& entry) {
      if (committed && entry.step == request_.step) return Verdict::sound;
      std::vector<std::string> sightings;
      for (const Json& one : seen) sightings.push_back(one.value(std::to_string(entry.step), encode_sighting({})));
      return combine_sightings(sightings, request_.storage.nodes).judgement.verdict;
    };
    attempt(problems, [&] {
      for (const CheckpointEntry& victim : prunable_of(request_.run, retention, verdict))
        victims.push_back(victim.step);
    });
  }
  problem_ = join(problems, "; ");
  return parse_json(prepared_.keepers->broadcast(to_text(victims), 0), "the checkpoints to remove");
}

// All nodes have published: the checkpoint is committed.
void Saver::Save::choose_retired() {
  published_ = false;
  for (const std::int64_t step : choose_victims(request_.retention, true)) retired_.push_back(step);
}

// What follows the commit cannot undo it: a problem there is reported, not thrown, and keeps nothing else from being
// done.
void Saver::Save::tidy() {
  if (!keeps()) return;
  std::vector<std::string> problems;
  if (!problem_.empty()) problems.push_back(problem_);
  discard_displaced(displaced_);
  attempt(problems, [&] { write_latest(request_.run, request_.step); });
  remove_steps(request_.run, retired_, problems);
  clear_away(request_.run, request_.trash, problems);
  problem_ = join(problems, "; ");
  if (!problem_.empty()) problem_ = fmt::format("{}: {}", request_.storage.node_of(ranks_.rank()), problem_);
}

void Saver::Save::gather_problems() {
  if (prepared_.keepers) {
    std::vector<std::string> problems = prepared_.keepers->gather(problem_, 0);
    std::erase(problems, "");
    if (ranks_.rank() == 0) note_report(problems);
  }
  told_ = ranks_.broadcast(told_, 0);
}

SaveReport Saver::Save::report() const {
  const Json result = parse_json(told_, "the report of rank 0");
  return {.path = checkpoint_folder(request_.run, request_.step),
          .step = request_.step,
          .bytes = result.at("bytes").get<std::uint64_t>(),
          .compared_bytes = result.at("compared_bytes").get<std::uint64_t>(),
          .seconds = run_seconds() - start_s_,
          .state_digest = hash_from_hex(result.at("digest").get<std::string>()),
          .pruned = result.at("pruned").get<std::vector<std::int64_t>>(),
          .problem = result.at("problem").get<std::string>()};
}

}  // namespace lockstep
