#include "checkpoint/save.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "checkpoint/collected_state.hpp"
#include "checkpoint/compare_holders.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "store/checkpoint_plan.hpp"
#include "store/piece_pass.hpp"
#include "store/staging.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

namespace lockstep {

namespace {

// Numbers as ranks exchange them.
using Numbers = std::vector<std::uint64_t>;

std::string encode(const Numbers& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::uint64_t)};
}

Numbers decode(const std::string& bytes) {
  Numbers numbers(bytes.size() / sizeof(std::uint64_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::uint64_t));
  return numbers;
}

// One save from the plan to the commit. Its members are called in order, by all ranks.
class Save {
 public:
  Save(Communicator& ranks, const SaveRequest& request, const CollectedState& collected)
      : ranks_(ranks),
        request_(request),
        collected_(collected),
        plan_(plan_checkpoint(collected.tensors, collected.holdings, collected.components,
                              parts_of_ranks(request.world, request.ranks_per_file))) {
    for (const StoredTensor& tensor : collected.tensors) {
      const auto component =
          std::find_if(collected.components.begin(), collected.components.end(),
                       [&](const StoredComponent& candidate) { return candidate.key == tensor.component; });
      component_.push_back(static_cast<std::size_t>(component - collected.components.begin()));
    }
  }

  void agree();
  void stage();
  void write();
  void seal();
  Hash128 commit();
  void abandon() const noexcept {
    if (ranks_.rank() == 0 && !staging_.empty()) abandon_staging(staging_);
  }
  std::uint64_t bytes() const;
  const std::vector<std::int64_t>& retired() const { return retired_; }

 private:
  void enter(Phase phase) const {
    if (request_.enter) request_.enter(phase);
  }
  bool leads(const PlannedFile& file) const { return file.leader == ranks_.rank(); }
  Validation compared(std::size_t piece) const {
    return collected_.components[component_[plan_.pieces[piece].tensor]].validation;
  }
  bool holds(std::size_t piece) const;
  std::span<const std::byte> bytes_of_piece(std::size_t piece) const {
    return bytes_of(collected_, plan_.pieces[piece].tensor, plan_.pieces[piece].box);
  }
  void make_room();
  void empty_trash() const;
  std::vector<HeldBox> pass();
  Evidence evidence(std::size_t piece) const;

  Communicator& ranks_;
  const SaveRequest& request_;
  const CollectedState& collected_;
  CheckpointPlan plan_;
  std::vector<std::size_t> component_;  // by tensor: number in CollectedState::components
  std::string uuid_;
  Path staging_;
  std::vector<StampedPart> stamped_;  // by file, on its leader
  StagedState state_;
  std::vector<std::int64_t> retired_;  // before there was room
};

void Save::agree() {
  agree_equal(ranks_, "the plan of the checkpoint", to_hex(hash_of(plan_)));
  // Another rank's idea of step or folder would scatter the parts.
  agree_equal(ranks_, "the step and folder of the checkpoint",
              fmt::format("{} {}", request_.step, request_.run.string()));
  uuid_ = rank0_tells(ranks_, "naming the checkpoint", make_uuid);
  staging_ = staging_folder(request_.run, request_.step, uuid_);
}

void Save::empty_trash() const {
  if (request_.trash != nullptr)
    request_.trash->empty();
  else
    lockstep::empty_trash(request_.run);
}

// What killed jobs left behind must not be what a save fails for. Where that is not enough, older checkpoints go as if
// the new one were there, but never the newest sound one.
void Save::make_room() {
  const Path folder = checkpoints_folder(request_.run);
  make_folder(folder);
  try {
    collect_leftovers(request_.run);
    if (has_room(folder, plan_)) return;
    empty_trash();
    if (has_room(folder, plan_)) return;
    Retention without_one = request_.retention;
    without_one.keep_last = std::max<std::int64_t>(1, without_one.keep_last - 1);
    retired_ = retire(request_.run, without_one).steps;
    empty_trash();
  } catch (const Error&) {  // what cannot be removed is told after the commit, by which it is tried again
  }
}

// Rank 0 makes the folders, then each part's leader lays it out and tells the others where their pieces go.
void Save::stage() {
  state_.pieces.resize(plan_.pieces.size());
  state_.files.resize(plan_.files.size());
  stamped_.resize(plan_.files.size());
  Numbers offsets;
  together(ranks_, fmt::format("staging the checkpoint of step {}", request_.step), [&] {
    enter(Phase::save_stage);
    if (ranks_.rank() != 0) return;
    make_room();
    make_staging(staging_, plan_);
  });
  together(ranks_, fmt::format("laying out the checkpoint of step {}", request_.step), [&] {
    for (std::size_t i = 0; i < plan_.files.size(); ++i) {
      if (!leads(plan_.files[i])) continue;
      stamped_[i] = stamp_part(staging_ / plan_.files[i].path, part_pieces(plan_, plan_.files[i]));
      for (std::size_t k = 0; k < plan_.files[i].pieces.size(); ++k)
        offsets.insert(offsets.end(), {plan_.files[i].pieces[k], stamped_[i].table.records[k].offset});
    }
  });
  for (const std::string& text : ranks_.all_gather(encode(offsets))) {
    const Numbers numbers = decode(text);
    for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) state_.pieces[numbers[i]].offset = numbers[i + 1];
  }
}

// True if this rank is one of those that hold a piece as the layout says; others may have bytes of that name which do
// not count.
bool Save::holds(std::size_t piece) const {
  const WriteItem& item = plan_.pieces[piece];
  const auto& holdings = collected_.holdings[item.tensor];
  return std::any_of(holdings.begin(), holdings.end(), [&](const Holding& holding) {
    return contains(holding.box, item.box) &&
           std::find(holding.ranks.begin(), holding.ranks.end(), ranks_.rank()) != holding.ranks.end();
  });
}

// One pass over all that this rank holds: its own pieces are written, those that other ranks write are fingerprinted.
std::vector<HeldBox> Save::pass() {
  std::vector<HeldBox> boxes;
  for (const WriteItem& item : plan_.pieces) boxes.push_back({item.tensor, item.box, {}});
  std::vector<std::unique_ptr<PartFile>> parts(plan_.files.size());
  std::vector<std::size_t> numbers;
  std::vector<HeldPiece> held;
  std::uint64_t written = 0;
  for (std::size_t i = 0; i < plan_.pieces.size(); ++i) {
    const bool writes = plan_.pieces[i].writer == ranks_.rank();
    if (!writes && (compared(i) < Validation::tensor || !holds(i))) continue;
    const std::size_t file = plan_.file_of_piece[i];
    numbers.push_back(i);
    held.push_back({part_piece(plan_, i), bytes_of_piece(i), {}});
    if (!writes) continue;
    if (!parts[file]) parts[file] = std::make_unique<PartFile>(staging_ / plan_.files[file].path);
    held.back().place = {parts[file].get(), state_.pieces[i].offset};
    written += held.back().bytes.size();
  }
  try {
    const std::vector<PieceRecord> records = pass_over(held);
    for (std::size_t k = 0; k < held.size(); ++k) {
      state_.pieces[numbers[k]].blocks = records[k].blocks;
      state_.pieces[numbers[k]].fingerprint = records[k].fingerprint;
    }
    for (const auto& part : parts) {
      if (part) part->finish();
    }
  } catch (const Error& error) {
    throw with_room(error, staging_, written);
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (compared(i) != Validation::none && holds(i)) boxes[i].evidence = evidence(i);
  }
  return boxes;
}

// Returns what this rank knows of a piece that it holds, as deeply as the component wants it compared.
Evidence Save::evidence(std::size_t piece) const {
  const auto bytes = bytes_of_piece(piece);
  if (compared(piece) == Validation::quick) {  // the ends: enough to see another step or another seed
    constexpr std::size_t sample = 4096;
    const Hash128 first = hash128(bytes.first(std::min(sample, bytes.size())));
    const Hash128 last = hash128(bytes.last(std::min(sample, bytes.size())));
    return {first.high, first.low, last.high, last.low};
  }
  const Fingerprint& sum = state_.pieces[piece].fingerprint;
  const Hash128 content = compared(piece) == Validation::full ? hash128(bytes) : Hash128{};
  return {sum.first, sum.second, content.high, content.low};
}

void Save::write() {
  std::vector<HeldBox> boxes;
  together(ranks_, fmt::format("writing the checkpoint of step {}", request_.step), [&] {
    enter(Phase::save_write);
    boxes = pass();
  });
  compare_holders(ranks_, collected_, boxes);
  Numbers written;
  for (std::size_t i = 0; i < plan_.pieces.size(); ++i) {
    if (plan_.pieces[i].writer != ranks_.rank()) continue;
    const PieceRecord& record = state_.pieces[i];
    written.insert(written.end(), {i, record.fingerprint.first, record.fingerprint.second, record.blocks.size()});
    for (const Hash128& block : record.blocks) written.insert(written.end(), {block.high, block.low});
  }
  for (const std::string& text : ranks_.all_gather(encode(written))) {
    const Numbers numbers = decode(text);
    for (std::size_t i = 0; i < numbers.size();) {
      PieceRecord& record = state_.pieces[numbers[i]];
      record.fingerprint = {numbers[i + 1], numbers[i + 2]};
      record.blocks.resize(numbers[i + 3]);
      i += 4;
      for (Hash128& block : record.blocks) {
        block = {numbers[i], numbers[i + 1]};
        i += 2;
      }
    }
  }
}

void Save::seal() {
  Numbers sealed;
  together(ranks_, fmt::format("sealing the checkpoint of step {}", request_.step), [&] {
    enter(Phase::save_seal);
    for (std::size_t i = 0; i < plan_.files.size(); ++i) {
      const PlannedFile& file = plan_.files[i];
      if (!leads(file)) continue;
      std::vector<PieceRecord> records;
      for (const std::size_t piece : file.pieces) records.push_back(state_.pieces[piece]);
      const SealedPart part = seal_part(staging_ / file.path, std::move(stamped_[i]), records);
      sealed.insert(sealed.end(),
                    {i, part.bytes, part.hash.high, part.hash.low, part.table_hash.high, part.table_hash.low});
      for (const ByteRange& column : part.columns) sealed.insert(sealed.end(), {column.offset, column.bytes});
    }
  });
  for (const std::string& text : ranks_.all_gather(encode(sealed))) {
    const Numbers numbers = decode(text);
    for (std::size_t i = 0; i < numbers.size();) {
      SealedPart& part = state_.files[numbers[i]];
      part = {numbers[i + 1], {numbers[i + 2], numbers[i + 3]}, {numbers[i + 4], numbers[i + 5]}, {}};
      i += 6;
      for (ByteRange& column : part.columns) {
        column = {numbers[i], numbers[i + 1]};
        i += 2;
      }
    }
  }
}

Hash128 Save::commit() {
  together(ranks_, fmt::format("committing the checkpoint of step {}", request_.step),
           [&] { enter(Phase::save_commit); });
  const std::string digest =
      rank0_tells(ranks_, fmt::format("committing the checkpoint of step {}", request_.step), [&] {
        Manifest facts;
        facts.step = request_.step;
        facts.uuid = uuid_;
        facts.mesh = request_.world.mesh;
        facts.nodes = nodes_of(request_.world);
        facts.components = collected_.components;
        facts.metrics = request_.metrics;
        facts.documents = request_.documents;
        const Manifest manifest = seal_checkpoint(staging_, plan_, state_, std::move(facts));
        replace_checkpoint(staging_, checkpoint_folder(request_.run, request_.step));
        return to_hex(manifest.state_digest);
      });
  return hash_from_hex(digest);
}

std::uint64_t Save::bytes() const {
  std::uint64_t bytes = 0;
  for (const SealedPart& file : state_.files) bytes += file.bytes;
  return bytes;
}

// What follows a commit cannot undo it: a problem here is reported, not thrown, and keeps nothing else from being done.
void tidy_up(Communicator& ranks, const SaveRequest& request, SaveReport& report) {
  const std::string told = rank0_tells(ranks, "removing old checkpoints", [&] {
    std::vector<std::string> problems;
    const auto attempt = [&](auto&& work) {
      try {
        work();
      } catch (const Error& error) {
        problems.emplace_back(error.what());
      }
    };
    Retired retired;
    attempt([&] { advise_latest(request.run, request.step); });
    attempt([&] { retired = retire(request.run, request.retention); });
    if (!retired.problem.empty()) problems.push_back(retired.problem);
    attempt([&] { collect_leftovers(request.run); });
    if (request.trash == nullptr) {
      attempt([&] { empty_trash(request.run); });
    } else {
      request.trash->wake();
      if (const std::string problem = request.trash->problem(); !problem.empty()) problems.push_back(problem);
    }
    return to_text(Json{{"retired", retired.steps}, {"problem", join(problems, "; ")}});
  });
  const Json result = parse_json(told, "the report of rank 0");
  for (const Json& step : result.at("retired")) report.retired.push_back(step.get<std::int64_t>());
  report.problem = result.at("problem").get<std::string>();
}

}  // namespace

SaveReport save(Communicator& ranks, const std::vector<Component>& components, const SaveRequest& request) {
  const double start = monotonic_seconds();
  const CollectedState collected = collect_state(ranks, request.world, components, Contents::tensors_and_values, [&] {
    if (request.enter) request.enter(Phase::save_plan);
    if (request.step < 0 || request.ranks_per_file.value_or(1) < 1)
      fail(ExitCode::bug, "a save of step {} with {} ranks to a file", request.step, *request.ranks_per_file);
  });
  Save save(ranks, request, collected);
  SaveReport report{checkpoint_folder(request.run, request.step), request.step, 0, 0, {}, {}, {}};
  try {
    save.agree();
    save.stage();
    save.write();
    save.seal();
    report.state_digest = save.commit();
  } catch (const AgreedError& error) {
    save.abandon();
    if (error.code() != ExitCode::input) throw;
    // What a save reads are files that it has just written: where they are gone or changed, storage failed.
    throw AgreedError(Error(ExitCode::storage, error.what(), error.hint()), error.owner());
  } catch (...) {
    save.abandon();
    throw;
  }
  report.bytes = save.bytes();
  report.retired = save.retired();
  tidy_up(ranks, request, report);
  report.seconds = monotonic_seconds() - start;
  return report;
}

}  // namespace lockstep
