#include "reshard/reshard.hpp"

#include "app/agreed_start.hpp"
#include "base/checked_cast.hpp"
#include "base/json.hpp"
#include "base/output_folder.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/together.hpp"
#include "exchange/file_tensors.hpp"
#include "exchange/safetensors.hpp"
#include "reshard/average.hpp"
#include "reshard/mesh_state.hpp"
#include "reshard/model_folder_source.hpp"
#include "reshard/other_trainers.hpp"
#include "reshard/write_state.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/run_directory.hpp"
#include "store/staging.hpp"

#include <algorithm>
#include <memory>
#include <optional>

namespace lockstep {

namespace {

bool is_model_folder(const Path& path) {
  return has_safetensors(path) && !is_there(path / manifest_file) && !is_there(checkpoints_folder(path));
}

/// A folder to read: a checkpoint, or of Hugging Face with such a head.
struct SourcePath {
  Path path;
  std::optional<Head> head = {};              // of a folder of Hugging Face; else it is a checkpoint
  std::vector<SkippedCheckpoint> newer = {};  // checkpoints of its run that are damaged
};

SourcePath find_source(const std::string& path, Log& log) {
  if (is_model_folder(path)) {
    const WeightsReport report = examine_weights(path);
    for (const std::string& warning : report.remarks.warnings) log.warning("{}", warning);
    for (const std::string& note : report.remarks.notes) log.info("{}", note);
    return {.path = path, .head = report.head};
  }
  refuse_other_trainers(path);
  Found sound = find_at(path, [](const Path& one) { return judge_checkpoint(one, VerifyLevel::sizes); });
  return {.path = sound.checkpoint->path, .newer = std::move(sound.damaged)};
}

// As rank 0 sees them: a run may get another newest checkpoint while ranks look. Collective.
std::vector<SourcePath> sources_of(const ReshardConfig& config, Communicator& ranks, Log& log) {
  const std::string told = run_on_rank0(ranks, "", [&] {
    Json found = Json::array();
    for (const std::string& path : config.checkpoints) {
      const SourcePath source = find_source(path, log);
      Json newer = Json::array();
      for (const SkippedCheckpoint& passed : source.newer)
        newer.push_back(
            {{"path", passed.checkpoint.path.string()}, {"step", passed.checkpoint.step}, {"reason", passed.reason}});
      found.push_back({{"path", source.path.string()},
                       {"own_head", source.head ? Json(*source.head == Head::own) : Json()},
                       {"newer", newer}});
    }
    return to_text(found);
  });
  std::vector<SourcePath> sources;
  for (const Json& one : parse_json(told, "the folders that rank 0 found")) {
    SourcePath source{.path = one.at("path").get<std::string>()};
    if (one.at("own_head").is_boolean()) source.head = one.at("own_head").get<bool>() ? Head::own : Head::as_configured;
    for (const Json& passed : one.at("newer"))
      source.newer.push_back(
          {{.path = passed.at("path").get<std::string>(), .step = passed.at("step")}, passed.at("reason")});
    sources.push_back(std::move(source));
  }
  return sources;
}

Json passed_over_json(const std::vector<SourcePath>& paths) {
  Json all = Json::array();
  for (const SourcePath& source : paths)
    for (const SkippedCheckpoint& passed : source.newer)
      all.push_back({{"path", passed.checkpoint.path.string()}, {"reason", passed.reason}});
  return all;
}

/// The folders that are read, a line each.
std::string sources_text(const std::vector<SourcePath>& paths) {
  std::string text;
  for (const SourcePath& source : paths) text += fmt::format("source  {}\n", source.path.string());
  return text;
}

void warn_of_passed_over(const std::vector<SourcePath>& paths, Log& log) {
  for (const SourcePath& source : paths)
    for (const SkippedCheckpoint& passed : source.newer)
      log.warning("skipped a damaged checkpoint: {}; using {}", to_text(passed), source.path.string());
}

/// Blocks of each checkpoint, for who reads by rows what ranks cut by columns: an eighth of the memory at most.
int blocks_held(std::uint64_t memory, std::size_t checkpoints) {
  constexpr std::uint64_t most = 16;
  return static_cast<int>(std::clamp<std::uint64_t>(memory / 8 / block_bytes / checkpoints, 1, most));
}

std::unique_ptr<StateSource> open_source(const std::vector<SourcePath>& paths, bool average, std::uint64_t memory) {
  const int blocks = blocks_held(memory, paths.size());
  std::vector<std::unique_ptr<StateSource>> sources;
  for (const SourcePath& one : paths)
    sources.push_back(one.head ? open_model_folder(one.path, *one.head) : open_checkpoint_source(one.path, blocks));
  return average ? average_of(std::move(sources)) : std::move(sources.front());
}

int parts_of(const ReshardConfig& config) {
  const std::int64_t parts = config.to ? config.to->parts.value_or(1) : 1;
  return checked_cast<int>(parts, "the number of parts", ExitCode::usage);
}

DType dtype_of(CastDtype type) {
  switch (type) {
    case CastDtype::bf16: return DType::bf16;
    case CastDtype::fp16: return DType::f16;
    case CastDtype::fp32: return DType::f32;
    case CastDtype::fp64: return DType::f64;
  }
  fail(ExitCode::bug, "unknown CastDtype {}", static_cast<int>(type));
}

MeshRequest mesh_asked(const ReshardTarget& target) {
  MeshRequest asked{.axes = {}, .ep_outside = target.ep_outside.value_or(false)};
  for (const auto& [name, size] : target.axes)
    asked.axes.emplace_back(name, checked_cast<int>(size, "the ranks of an axis", ExitCode::usage));
  return asked;
}

std::optional<Hash128> digest_of_kept(const StateSource& source, const NewState& state) {
  const Manifest& manifest = source.manifest();
  for (const std::size_t number : state.sources)
    if (!source.has_fingerprint(number)) return std::nullopt;
  if (state.sources.size() == manifest.tensors.size()) return manifest.state_digest;
  std::vector<StoredTensor> kept;
  for (const std::size_t number : state.sources) kept.push_back(manifest.tensors[number]);
  return state_digest(kept);
}

/// The names of tensors that have another type than in the source.
std::vector<std::string> names_of_cast(const StateSource& source, const NewState& state) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < state.tensors.size(); ++i)
    if (state.tensors[i].layout.dtype != source.manifest().tensors[state.sources[i]].layout.dtype)
      names.push_back(full_name(state.tensors[i]));
  return names;
}

/// A tensor of the old type has the old elements, and so the old fingerprint.
void check_tensors(const StateSource& source, const NewState& state, const Manifest& written) {
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const StoredTensor& before = source.manifest().tensors[state.sources[i]];
    const StoredTensor& after = written.tensors[i];
    if (!source.has_fingerprint(state.sources[i]) || before.layout.dtype != after.layout.dtype) continue;
    if (before.fingerprint != after.fingerprint) {
      fail(ExitCode::input, "the fingerprint of {} changed from {} to {}: {} does not match its manifest",
           full_name(after), to_hex(before.fingerprint), to_hex(after.fingerprint), source.name());
    }
  }
}

/// What is kept and yet not used by every load, and what else people should know.
std::string notes_on(const NewState& state) {
  std::string text;
  for (const std::string& note : state.notes) text += note + "\n";
  for (const StoredComponent& component : state.facts.components)
    if (component.remap_policy == Remap::drop && !component.cells.empty())
      text += fmt::format("component {} is kept, but a load with other cells leaves it out\n", component.key);
  return text;
}

std::uint64_t bytes_of_piece(const CheckpointPlan& plan, std::size_t piece) {
  return bytes_of(part_piece(plan, piece));
}

std::vector<std::uint64_t> bytes_written(const CheckpointPlan& plan) {
  std::vector<std::uint64_t> bytes(static_cast<std::size_t>(plan.ranks), 0);
  for (std::size_t i = 0; i < plan.pieces.size(); ++i)
    bytes[static_cast<std::size_t>(plan.pieces[i].writer)] += bytes_of_piece(plan, i);
  return bytes;
}

std::string range_text(const std::vector<std::uint64_t>& bytes) {
  const auto [least, most] = std::ranges::minmax(bytes);
  const std::string from = human_bytes(least), to = human_bytes(most);
  return from == to ? to : fmt::format("{} to {}", from, to);
}

/// What each rank of the mesh would hold and write: of a few ranks each, of many the least and the most.
std::string ranks_text(const ReshardPlan& plan) {
  constexpr std::size_t most_lines = 16;
  const std::vector<std::uint64_t> held = bytes_held(plan.state), written = bytes_written(plan.parts);
  std::string text = fmt::format("{}: a rank holds {} and writes {}\n", to_text(plan.state.facts.mesh),
                                 range_text(held), range_text(written));
  for (std::size_t rank = 0; rank < held.size() && held.size() <= most_lines; ++rank)
    text += fmt::format("  rank {}  holds {}, writes {}\n", rank, human_bytes(held[rank]), human_bytes(written[rank]));
  return text;
}

std::uint64_t peak_memory(const std::vector<ProcessShare>& shares) {
  return std::ranges::max(shares, {}, &ProcessShare::peak_memory).peak_memory;
}

Json planned_json(const StateSource& source, const ReshardPlan& plan, const std::vector<ProcessShare>& shares) {
  Json parts = Json::array(), processes = Json::array();
  for (const PlannedFile& file : plan.parts.files) {
    std::uint64_t bytes = 0;
    for (const std::size_t piece : file.pieces) bytes += bytes_of_piece(plan.parts, piece);
    parts.push_back({{"path", file.path}, {"pieces", file.pieces.size()}, {"bytes", bytes}});
  }
  for (const ProcessShare& share : shares)
    processes.push_back(
        {{"pieces", share.pieces.size()}, {"bytes", share.bytes}, {"peak_memory_bytes", share.peak_memory}});
  Json result = {{"source", source.name()},
                 {"files", plan.parts.files.size()},
                 {"pieces", plan.parts.pieces.size()},
                 {"bytes", total_bytes(plan.parts)},
                 {"parts", parts},
                 {"mesh", to_text(plan.state.facts.mesh)},
                 {"peak_memory_bytes", peak_memory(shares)},
                 {"processes", processes},
                 {"notes", plan.state.notes}};
  if (!plan.on_mesh) return result;
  const std::vector<std::uint64_t> held = bytes_held(plan.state), written = bytes_written(plan.parts);
  result["ranks"] = Json::array();
  for (std::size_t rank = 0; rank < held.size(); ++rank)
    result["ranks"].push_back({{"holds", held[rank]}, {"writes", written[rank]}});
  return result;
}

std::string shares_text(const std::vector<ProcessShare>& shares) {
  std::string text = fmt::format("peak memory: {} for pieces in progress{}\n", human_bytes(peak_memory(shares)),
                                 shares.size() > 1 ? " per process" : "");
  for (std::size_t i = 0; i < shares.size() && shares.size() > 1; ++i)
    text += fmt::format("  process {}  reads and writes {} in {}, peak memory {}\n", i, human_bytes(shares[i].bytes),
                        counted(std::ssize(shares[i].pieces), "piece"), human_bytes(shares[i].peak_memory));
  return text;
}

std::string planned_text(const ReshardPlan& plan, const std::vector<ProcessShare>& shares) {
  return describe_plan(plan.parts) + (plan.on_mesh ? ranks_text(plan) : "") + shares_text(shares) +
         notes_on(plan.state);
}

std::string cast_text(const ReshardPlan& plan) {
  if (plan.cast.empty()) return {};
  std::string text = fmt::format("cast: {}; their digests change, and so does the state digest\n",
                                 counted(std::ssize(plan.cast), "tensor"));
  for (const std::string& name : plan.cast) text += fmt::format("  {}\n", name);
  return text;
}

Json done_json(const StateSource& source, const ReshardPlan& plan, const Resharded& result, const std::string& output) {
  return {{"source", source.name()},
          {"output", output},
          {"files", plan.parts.files.size()},
          {"bytes", result.bytes},
          {"mesh", to_text(plan.state.facts.mesh)},
          {"digest_before", plan.before ? Json(to_hex(*plan.before)) : Json(nullptr)},
          {"digest_after", to_hex(result.digest)},
          {"cast", plan.cast},
          {"notes", plan.state.notes}};
}

std::string done_text(const ReshardPlan& plan, const Resharded& result) {
  const std::string digests = plan.before ? fmt::format("state digest before  {}\nstate digest after   {}",
                                                        to_hex(*plan.before), to_hex(result.digest))
                                          : fmt::format("state digest  {}", to_hex(result.digest));
  return fmt::format("{} in {} part files\n{}\n{}{}", human_bytes(result.bytes), plan.parts.files.size(), digests,
                     cast_text(plan), notes_on(plan.state));
}

void check_memory(const StateSource& source, const ReshardConfig& config) {
  const std::uint64_t least = least_memory_of(source);
  if (config.memory.bytes < least)
    throw Error(ExitCode::usage,
                fmt::format("--memory {} is too little for {} checkpoints at once: one block of each needs {} in total",
                            human_bytes(config.memory.bytes), source.blocks(), human_bytes(least)),
                fmt::format("--memory {}MiB", least >> 20));
}

}  // namespace

ReshardPlan plan_reshard(const StateSource& source, const ReshardConfig& config) {
  check_memory(source, config);
  ReshardPlan plan{whole_state(source.manifest()), {}, false, {}, {}};
  plan.state.notes = source.notes();
  const bool weights_alone = config.average && config.only.empty();
  select(plan.state, weights_alone ? std::vector{NamePattern::parse("model")} : config.only, config.skip);
  if (config.average &&
      std::ranges::none_of(plan.state.tensors, [](const StoredTensor& tensor) { return tensor.component == "model"; }))
    throw Error(ExitCode::usage, "--average has no effect: --only and --skip leave no weights", "leave it out");
  if (config.to && !config.to->axes.empty()) {
    lay_out_on(mesh_asked(*config.to), model_known_to(source.manifest(), source.trainer_values()), plan.state);
    plan.on_mesh = true;
  }
  if (config.cast) retype_weights(plan.state, dtype_of(*config.cast));
  plan.cast = names_of_cast(source, plan.state);
  plan.before = digest_of_kept(source, plan.state);
  plan.parts = plan.on_mesh ? plan_ranks(plan.state, parts_of(config)) : plan_parts(plan.state, parts_of(config));
  return plan;
}

namespace {

// On rank 0, behind the last byte of all parts. Returns the digest of the state.
std::string commit(const StateSource& source, const ReshardPlan& plan, const StagedState& staged,
                   OutputFolder& folder) {
  Manifest facts = plan.state.facts;
  facts.uuid = make_uuid();
  const Manifest written =
      seal_checkpoint(folder.content(), plan.parts.tensors, plan.parts.files, staged, std::move(facts));
  check_tensors(source, plan.state, written);
  if (plan.before && plan.cast.empty() && written.state_digest != *plan.before) {
    fail(ExitCode::input, "the state digest changed from {} to {}: {} does not match its manifest",
         to_hex(*plan.before), to_hex(written.state_digest), source.name());
  }
  folder.publish();
  return to_hex(written.state_digest);
}

// What must be one on all ranks.
std::string identity_of(const StateSource& source, const ReshardPlan& plan) {
  StreamHash hash;
  for (const auto& [name, text] : plan.state.facts.documents) hash.add(name + " " + text + "\n");
  hash.add(to_hex(source.manifest().state_digest) + to_hex(hash_of(plan.parts)));
  return to_hex(hash.digest());
}

}  // namespace

Resharded reshard(Session& session, const StateSource& source, const ReshardPlan& plan, const Path& output,
                  std::uint64_t memory) {
  Communicator& ranks = session.world();
  const auto enter = [&](Phase phase) { together(ranks, "", [&] { session.enter(phase); }); };
  std::unique_ptr<OutputFolder> folder;  // on rank 0; goes with everything in it unless published
  enter(Phase::save_stage);
  const Path staging = run_on_rank0(ranks, "", [&] {
    folder = std::make_unique<OutputFolder>(
        output, OutputKind{.name = "checkpoint", .marker = std::string(manifest_file), .files = {}}, Existing::refuse);
    make_staging(folder->content(), plan.parts.folders, total_bytes(plan.parts));
    return folder->content().string();
  });
  const StagedState staged = write_parts(session, source, plan.state, plan.parts, staging, memory);
  enter(Phase::save_commit);
  const std::string digest = run_on_rank0(ranks, "", [&] { return commit(source, plan, staged, *folder); });
  return {hash_from_hex(digest), total_bytes(plan.parts)};
}

int checkpoint_reshard(const ReshardConfig& config, Session& session, Output& output) {
  hand_to_plugins(config.plugin_values);
  session.configure({.watchdog_s = config.watchdog.value, .folder = absolute_path(config.output).parent_path()});
  session.accept_stop_signals();
  agree_on_start(session.world(), output.settings());
  Communicator& ranks = session.world();
  const std::vector<SourcePath> paths = sources_of(config, ranks, output.log());
  std::unique_ptr<StateSource> source;
  ReshardPlan plan;
  together(ranks, "", [&] {
    session.enter(Phase::load);
    source = open_source(paths, config.average, config.memory.bytes);
    plan = plan_reshard(*source, config);
  });
  agree_equal(ranks, "the plan of the new checkpoint", identity_of(*source, plan));
  const bool json = output.common().json, speaks = ranks.rank() == 0;
  if (speaks) warn_of_passed_over(paths, output.log());
  if (output.common().dry_run) {
    const std::vector<ProcessShare> shares =
        share_out(*source, plan.state, plan.parts, config.memory.bytes, ranks.size());
    Json planned = planned_json(*source, plan, shares);
    planned["passed_over"] = passed_over_json(paths);
    if (speaks && json) output.print_json(planned);
    if (speaks && !json) output.print(sources_text(paths) + planned_text(plan, shares));
    return 0;
  }
  const Resharded result = reshard(session, *source, plan, config.output, config.memory.bytes);
  Json done = done_json(*source, plan, result, config.output);
  done["passed_over"] = passed_over_json(paths);
  if (speaks && json) output.print_json(done);
  if (speaks && !json) output.print(sources_text(paths) + done_text(plan, result));
  return 0;
}

}  // namespace lockstep
