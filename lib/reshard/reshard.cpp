#include "reshard/reshard.hpp"

#include "base/checked_cast.hpp"
#include "base/json.hpp"
#include "base/output_folder.hpp"
#include "base/text.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/piece_pass.hpp"
#include "store/run_directory.hpp"
#include "store/staging.hpp"

#include <numeric>
#include <vector>

namespace lockstep {

namespace {

Path source_of(const ReshardConfig& config) {
  const Found found =
      find_at(config.checkpoint, [](const Path& path) { return judge_checkpoint(path, VerifyLevel::sizes); });
  return found.checkpoint->path;
}

int parts_of(const ReshardConfig& config) {
  return config.consolidate || !config.to ? 1
                                          : checked_cast<int>(config.to->parts, "the number of parts", ExitCode::usage);
}

void write_part(const CheckpointReader& source, const CheckpointPlan& plan, std::size_t number, const Path& staging,
                StagedState& state) {
  const PlannedFile& file = plan.files[number];
  const Path path = staging / file.path;
  const std::vector<PartPiece> pieces = part_pieces(plan, file);
  const StampedPart stamped = stamp_part(path, pieces);
  PartFile part(path);
  std::vector<PieceRecord> records;
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    bytes.resize(bytes_of(pieces[i]));
    source.read(plan.pieces[file.pieces[i]].tensor, pieces[i].box, bytes);
    const HeldPiece held{pieces[i], bytes, PiecePlace{&part, stamped.table.records[i].offset}};
    records.push_back(pass_over(std::span(&held, 1)).front());
    state.tensors[plan.pieces[file.pieces[i]].tensor] += records.back().fingerprint;
  }
  part.finish();
  state.files[number] = seal_part(path, stamped, records);
}

/// What is kept and yet not used by every load.
std::string notes_on(const Manifest& manifest) {
  std::string text;
  for (const StoredComponent& component : manifest.components)
    if (component.remap_policy == Remap::drop && !component.cells.empty())
      text += fmt::format("component {} is kept, but a load with other cells leaves it out\n", component.key);
  return text;
}

}  // namespace

CheckpointPlan plan_reshard(const CheckpointReader& source, int parts) {
  std::vector<Rank> writers(static_cast<std::size_t>(parts));
  std::iota(writers.begin(), writers.end(), 0);
  std::vector<std::vector<Holding>> holdings;
  for (const StoredTensor& tensor : source.manifest().tensors) {
    const Box box = whole(tensor.layout.global);
    holdings.push_back(empty(box) ? std::vector<Holding>{} : std::vector<Holding>{{box, writers}});
  }
  return plan_checkpoint(source.manifest().tensors, holdings, source.manifest().components, writers);
}

Resharded reshard(const CheckpointReader& source, const CheckpointPlan& plan, const Path& output) {
  OutputFolder folder(output, {.name = "checkpoint", .marker = std::string(manifest_file), .files = {}},
                      Existing::refuse);
  Manifest facts = source.manifest();
  facts.files.clear();
  facts.uuid = make_uuid();
  StagedState state;
  state.tensors.resize(plan.tensors.size());
  state.files.resize(plan.files.size());
  Resharded result{source.manifest().state_digest, {}, total_bytes(plan)};
  make_staging(folder.content(), plan);
  for (std::size_t i = 0; i < plan.files.size(); ++i) write_part(source, plan, i, folder.content(), state);
  result.after = seal_checkpoint(folder.content(), plan, state, std::move(facts)).state_digest;
  if (result.after != result.before) {
    fail(ExitCode::input, "the state digest changed from {} to {}: {} does not hold what its manifest says",
         to_hex(result.before), to_hex(result.after), source.path().string());
  }
  folder.publish();
  return result;
}

int checkpoint_reshard(const ReshardConfig& config, Session&, Output& output) {
  const CheckpointReader source(source_of(config));
  const CheckpointPlan plan = plan_reshard(source, parts_of(config));
  const bool json = output.common().json;
  if (output.common().dry_run) {
    if (json)
      output.print_json({{"source", source.path().string()},
                         {"files", plan.files.size()},
                         {"pieces", plan.pieces.size()},
                         {"bytes", total_bytes(plan)}});
    else
      output.print(describe_plan(plan));
    return 0;
  }
  const Resharded result = reshard(source, plan, config.output);
  if (json) {
    output.print_json({{"source", source.path().string()},
                       {"output", config.output},
                       {"files", plan.files.size()},
                       {"bytes", result.bytes},
                       {"digest_before", to_hex(result.before)},
                       {"digest_after", to_hex(result.after)}});
  } else {
    output.print(fmt::format("{} in {} part files\nstate digest before  {}\nstate digest after   {}\n{}",
                             human_bytes(result.bytes), plan.files.size(), to_hex(result.before), to_hex(result.after),
                             notes_on(source.manifest())));
  }
  return 0;
}

}  // namespace lockstep
