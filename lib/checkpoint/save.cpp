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
#include <map>
#include <memory>
#include <optional>

namespace lockstep {

// What follows from the description of the state and is the same for the next save of it.
struct Saver::Prepared {
  CollectedState collected;
  std::vector<int> part_of_rank;
  CheckpointPlan plan;
  std::vector<Validation> compared;              // by piece: how deeply
  std::vector<int> holders;                      // by piece: ranks that hold it
  std::vector<bool> held;                        // by piece: this rank is one of them
  std::unique_ptr<Communicator> part;            // the ranks that write to the same parts
  std::vector<std::optional<PartImage>> images;  // by file: on its leader, once it was stamped
  std::vector<std::uint64_t> offsets;            // by piece of the parts of this rank; empty until they are stamped
};

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

// One save from the folder to the commit. Its members are called in order, by all ranks.
class Save {
 public:
  Save(Communicator& ranks, const SaveRequest& request, Saver::Prepared& prepared)
      : ranks_(ranks), request_(request), prepared_(prepared), collected_(prepared.collected), plan_(prepared.plan) {}

  void agree();
  void stage();
  void write();
  void seal();
  void commit(SaveReport& report);
  void abandon() const noexcept {
    if (ranks_.rank() == 0 && !staging_.empty()) abandon_staging(staging_);
  }

 private:
  void enter(Phase phase) const {
    if (request_.enter) request_.enter(phase);
  }
  bool leads(std::size_t file) const { return plan_.files[file].leader == ranks_.rank(); }
  std::span<const std::byte> bytes_of_piece(std::size_t piece) const {
    return bytes_of(collected_, plan_.pieces[piece].tensor, plan_.pieces[piece].box);
  }
  void make_room();
  void empty_trash() const;
  void tell_offsets();
  std::vector<HeldBox> pass();
  Evidence evidence(std::size_t piece) const;

  Communicator& ranks_;
  const SaveRequest& request_;
  Saver::Prepared& prepared_;
  const CollectedState& collected_;
  const CheckpointPlan& plan_;
  std::string uuid_;
  Path staging_;
  std::vector<PieceRecord> pieces_;    // of those that this rank holds or, as a leader, has in its files
  StagedState state_;                  // whole on rank 0
  std::vector<std::int64_t> retired_;  // before there was room
};

void Save::agree() {
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

// Rank 0 makes the folders, then each part's leader lays it out.
void Save::stage() {
  together(ranks_, fmt::format("staging the checkpoint of step {}", request_.step), [&] {
    enter(Phase::save_stage);
    if (ranks_.rank() != 0) return;
    make_room();
    make_staging(staging_, plan_);
  });
  together(ranks_, fmt::format("laying out the checkpoint of step {}", request_.step), [&] {
    for (std::size_t i = 0; i < plan_.files.size(); ++i) {
      if (!leads(i)) continue;
      const Path path = staging_ / plan_.files[i].path;
      std::optional<PartImage>& image = prepared_.images[i];
      if (image)
        stamp_part(path, *image);
      else
        image = image_of(path, stamp_part(path, part_pieces(plan_, plan_.files[i])));
    }
  });
  if (prepared_.offsets.empty()) tell_offsets();
}

// The leaders tell the others where their pieces go.
void Save::tell_offsets() {
  Numbers offsets;
  for (std::size_t i = 0; i < plan_.files.size(); ++i) {
    if (!leads(i)) continue;
    const std::vector<PieceRecord>& records = prepared_.images[i]->stamped.table.records;
    for (std::size_t k = 0; k < records.size(); ++k)
      offsets.insert(offsets.end(), {plan_.files[i].pieces[k], records[k].offset});
  }
  prepared_.offsets.assign(plan_.pieces.size(), 0);
  for (const std::string& text : prepared_.part->all_gather(encode(offsets))) {
    const Numbers numbers = decode(text);
    for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) prepared_.offsets[numbers[i]] = numbers[i + 1];
  }
}

// One pass over all that this rank holds: its own pieces are written, those that other ranks write are fingerprinted.
std::vector<HeldBox> Save::pass() {
  std::vector<std::unique_ptr<PartFile>> parts(plan_.files.size());
  std::vector<std::size_t> numbers;
  std::vector<HeldPiece> held;
  std::uint64_t written = 0;
  for (std::size_t i = 0; i < plan_.pieces.size(); ++i) {
    const bool writes = plan_.pieces[i].writer == ranks_.rank();
    if (!writes && (prepared_.compared[i] < Validation::tensor || !prepared_.held[i])) continue;
    const std::size_t file = plan_.file_of_piece[i];
    numbers.push_back(i);
    held.push_back({part_piece(plan_, i), bytes_of_piece(i), {}});
    if (!writes) continue;
    if (!parts[file]) parts[file] = std::make_unique<PartFile>(staging_ / plan_.files[file].path);
    held.back().place = {parts[file].get(), prepared_.offsets[i]};
    written += held.back().bytes.size();
  }
  try {
    std::vector<PieceRecord> records = pass_over(held);
    for (std::size_t k = 0; k < held.size(); ++k) pieces_[numbers[k]] = std::move(records[k]);
    for (const auto& part : parts) {
      if (part) part->finish();
    }
  } catch (const Error& error) {
    throw with_room(error, staging_, written);
  }
  std::vector<HeldBox> boxes;
  for (std::size_t i = 0; i < plan_.pieces.size(); ++i) {
    const WriteItem& piece = plan_.pieces[i];
    boxes.push_back({piece.tensor, piece.box, prepared_.holders[i], piece.writer == ranks_.rank(), {}});
    if (prepared_.compared[i] != Validation::none && prepared_.held[i]) boxes.back().evidence = evidence(i);
  }
  return boxes;
}

// Returns what this rank knows of a piece that it holds, as deeply as the component wants it compared.
Evidence Save::evidence(std::size_t piece) const {
  const auto bytes = bytes_of_piece(piece);
  if (prepared_.compared[piece] == Validation::quick) {  // the ends: enough to see another step or another seed
    constexpr std::size_t sample = 4096;
    const Hash128 first = hash128(bytes.first(std::min(sample, bytes.size())));
    const Hash128 last = hash128(bytes.last(std::min(sample, bytes.size())));
    return {first.high, first.low, last.high, last.low};
  }
  const Fingerprint& sum = pieces_[piece].fingerprint;
  const Hash128 content = prepared_.compared[piece] == Validation::full ? hash128(bytes) : Hash128{};
  return {sum.first, sum.second, content.high, content.low};
}

void Save::write() {
  pieces_.resize(plan_.pieces.size());
  std::vector<HeldBox> boxes;
  together(ranks_, fmt::format("writing the checkpoint of step {}", request_.step), [&] {
    enter(Phase::save_write);
    boxes = pass();
  });
  compare_holders(ranks_, collected_, boxes);
  state_.tensors.assign(plan_.tensors.size(), {});
  Numbers written;  // of the pieces in files that another rank seals
  for (std::size_t i = 0; i < plan_.pieces.size(); ++i) {
    if (plan_.pieces[i].writer != ranks_.rank()) continue;
    const PieceRecord& record = pieces_[i];
    state_.tensors[plan_.pieces[i].tensor] += record.fingerprint;
    if (leads(plan_.file_of_piece[i])) continue;
    written.insert(written.end(), {i, record.fingerprint.first, record.fingerprint.second, record.blocks.size()});
    for (const Hash128& block : record.blocks) written.insert(written.end(), {block.high, block.low});
  }
  add_up(ranks_, state_.tensors);
  for (const std::string& text : prepared_.part->all_gather(encode(written))) {
    const Numbers numbers = decode(text);
    for (std::size_t i = 0; i < numbers.size();) {
      PieceRecord& record = pieces_[numbers[i]];
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
      if (!leads(i)) continue;
      std::vector<PieceRecord> records;
      for (const std::size_t piece : plan_.files[i].pieces) records.push_back(pieces_[piece]);
      const SealedPart part = seal_part(staging_ / plan_.files[i].path, prepared_.images[i]->stamped, records);
      sealed.insert(sealed.end(),
                    {i, part.bytes, part.hash.high, part.hash.low, part.table_hash.high, part.table_hash.low});
      for (const ByteRange& column : part.columns) sealed.insert(sealed.end(), {column.offset, column.bytes});
    }
  });
  state_.files.resize(plan_.files.size());
  for (const std::string& text : ranks_.gather(encode(sealed), 0)) {
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

void Save::commit(SaveReport& report) {
  const std::string what = fmt::format("committing the checkpoint of step {}", request_.step);
  together(ranks_, what, [&] { enter(Phase::save_commit); });
  const std::string told = rank0_tells(ranks_, what, [&] {
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
    std::uint64_t bytes = 0;
    for (const SealedPart& file : state_.files) bytes += file.bytes;
    return to_text(Json{{"digest", to_hex(manifest.state_digest)}, {"bytes", bytes}, {"retired", retired_}});
  });
  const Json result = parse_json(told, "the report of rank 0");
  report.state_digest = hash_from_hex(result.at("digest").get<std::string>());
  report.bytes = result.at("bytes").get<std::uint64_t>();
  report.retired = result.at("retired").get<std::vector<std::int64_t>>();
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

// Everything that a plan needs to be carried out by this rank.
void complete(Communicator& ranks, Saver::Prepared& prepared) {
  const CollectedState& collected = prepared.collected;
  std::map<std::string, Validation> validation;
  for (const StoredComponent& component : collected.components) validation[component.key] = component.validation;
  for (const WriteItem& piece : prepared.plan.pieces) {
    prepared.compared.push_back(validation.at(collected.tensors[piece.tensor].component));
    const std::vector<Holding>& holdings = collected.holdings[piece.tensor];
    const auto holding =
        std::ranges::find_if(holdings, [&](const Holding& candidate) { return contains(candidate.box, piece.box); });
    invariant(holding != holdings.end(), "a piece lies in a box that somebody holds");
    prepared.holders.push_back(static_cast<int>(holding->ranks.size()));
    prepared.held.push_back(std::ranges::binary_search(holding->ranks, ranks.rank()));
  }
  prepared.images.resize(prepared.plan.files.size());
}

}  // namespace

Saver::Saver(Communicator& ranks) : ranks_(ranks) {}
Saver::~Saver() = default;

// What the last save agreed on stays valid as long as all ranks describe their state as they did then.
void Saver::prepare(const std::vector<Component>& components, const SaveRequest& request) {
  std::unique_ptr<Prepared> before = std::move(prepared_);
  std::optional<CollectedState> earlier;
  if (before) earlier = std::move(before->collected);
  bool known = false;
  CollectedState collected = collect_state(
      ranks_, request.world, components, Contents::tensors_and_values,
      [&] {
        if (request.enter) request.enter(Phase::save_plan);
        if (request.step < 0 || request.ranks_per_file.value_or(1) < 1)
          fail(ExitCode::bug, "a save of step {} with {} ranks to a file", request.step,
               request.ranks_per_file.value_or(1));
      },
      std::move(earlier), &known);
  std::vector<int> part_of_rank;
  together(ranks_, "planning the checkpoint", [&] {
    part_of_rank = parts_of_ranks(request.world, request.ranks_per_file);
    known = known && before->part_of_rank == part_of_rank;
  });
  if (ranks_.all_reduce(known ? std::int64_t{1} : std::int64_t{0}, Reduce::min) == 1) {
    before->collected = std::move(collected);
    prepared_ = std::move(before);
    return;
  }
  auto made = std::make_unique<Prepared>();
  made->collected = std::move(collected);
  made->part_of_rank = std::move(part_of_rank);
  together(ranks_, "planning the checkpoint", [&] {
    made->plan = plan_checkpoint(made->collected.tensors, made->collected.holdings, made->collected.components,
                                 made->part_of_rank);
    complete(ranks_, *made);
  });
  agree_equal(ranks_, "the plan of the checkpoint", to_hex(hash_of(made->plan)));
  const int part = made->part_of_rank[static_cast<std::size_t>(ranks_.rank())];
  made->part = ranks_.split(part, fmt::format("part {}", part));
  prepared_ = std::move(made);
}

SaveReport Saver::save(const std::vector<Component>& components, const SaveRequest& request) {
  const double start = monotonic_seconds();
  prepare(components, request);
  Save save(ranks_, request, *prepared_);
  SaveReport report{checkpoint_folder(request.run, request.step), request.step, 0, 0, {}, {}, {}};
  try {
    save.agree();
    save.stage();
    save.write();
    save.seal();
    save.commit(report);
  } catch (const AgreedError& error) {
    save.abandon();
    prepared_.reset();
    if (error.code() != ExitCode::input) throw;
    // What a save reads are files that it has just written: where they are gone or changed, storage failed.
    throw AgreedError(Error(ExitCode::storage, error.what(), error.hint()), error.owner());
  } catch (...) {
    save.abandon();
    prepared_.reset();
    throw;
  }
  tidy_up(ranks_, request, report);
  report.seconds = monotonic_seconds() - start;
  return report;
}

}  // namespace lockstep
