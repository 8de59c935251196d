#include "program/step_program.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "layout/layout_json.hpp"

#include <algorithm>

namespace lockstep {

namespace {

Json to_json(const RankClass& ranks);

Json to_json(const Slots& slots) {
  Json json = Json::object();
  if (!slots.acquires.empty()) json["acquires"] = slots.acquires;
  if (!slots.reads.empty()) json["reads"] = slots.reads;
  if (!slots.writes.empty()) json["writes"] = slots.writes;
  if (!slots.releases.empty()) json["releases"] = slots.releases;
  return json;
}

void put_subject(Json& json, const Subject& subject, MicroBatch micro_batch) {
  if (subject.kind != Subject::Kind::none) json[std::string(name_of(subject.kind))] = subject.index;
  if (micro_batch != no_micro_batch) json["micro_batch"] = micro_batch;
}

Json to_json(const Action& action) {
  Json json{{"op", name_of(action.op)}};
  put_subject(json, action.subject, action.micro_batch);
  json["lane"] = name_of(action.lane);
  if (!action.group.empty()) json["group"] = action.group;
  if (action.offset != 0) json["offset"] = action.offset;
  if (action.peer_lane != Lane::compute) json["peer_lane"] = name_of(action.peer_lane);
  if (action.bytes != 0) json["bytes"] = action.bytes;
  if (!action.waits.empty()) json["waits"] = action.waits;
  if (action.slots != Slots{}) json["slots"] = to_json(action.slots);
  return json;
}

Json to_json(const Slot& slot) {
  Json json{{"kind", name_of(slot.kind)}};
  put_subject(json, slot.subject, slot.micro_batch);
  json["bytes"] = slot.bytes;
  if (slot.turn > 0) json["turn"] = slot.turn;
  if (slot.arena == Arena::host) json["arena"] = "host";
  return json;
}

Json to_json(const BlockExchanges& exchanges);

Json to_json(const BlockExchange& exchange) {
  Json json{{"kind", name_of(exchange.kind)},  {"axes", exchange.axes},           {"dtype", name_of(exchange.dtype)},
            {"row_bytes", exchange.row_bytes}, {"first_row", exchange.first_row}, {"rows", exchange.rows},
            {"shares", exchange.shares}};
  if (exchange.of_samples) json["of_samples"] = true;
  if (exchange.at_most) json["at_most"] = true;
  if (exchange.repeats > 0) json["repeats"] = exchange.repeats;
  return json;
}

template <class Values>
Json array_of(const Values& values) {
  Json array = Json::array();
  for (const auto& value : values) array.push_back(to_json(value));
  return array;
}

Json to_json(const RankClass& ranks) {
  return {{"ranks", ranks.ranks}, {"slots", array_of(ranks.slots)}, {"actions", array_of(ranks.actions)}};
}

Json to_json(const BlockExchanges& exchanges) {
  Json json{{"forward", array_of(exchanges.forward)}, {"backward", array_of(exchanges.backward)}};
  if (!exchanges.recompute.empty()) json["recompute"] = array_of(exchanges.recompute);
  return json;
}

std::optional<std::string> difference(const StepProgram& a, const RankClass& left, const StepProgram& b,
                                      const RankClass& right, std::size_t index) {
  if (left.ranks != right.ranks)
    return fmt::format("class {} holds different ranks: {} in one program, {} in the other", index, left.ranks.size(),
                       right.ranks.size());
  for (std::size_t i = 0; i < std::max(left.actions.size(), right.actions.size()); ++i) {
    const auto text = [&](const StepProgram& program, const RankClass& ranks) {
      return i < ranks.actions.size() ? to_text(program, ranks.actions[i]) : std::string("nothing");
    };
    if (i < left.actions.size() && i < right.actions.size() && left.actions[i] == right.actions[i]) continue;
    const std::string one = text(a, left);
    const std::string other = text(b, right);
    if (one != other)
      return fmt::format("rank {}, action {}: {} in one program, {} in the other", left.ranks.front(), i, one, other);
    return fmt::format("rank {}, action {} ({}): its waits or slots differ", left.ranks.front(), i, one);
  }
  if (left.slots != right.slots) return fmt::format("rank {}: slots differ", left.ranks.front());
  return std::nullopt;
}

}  // namespace

std::string_view name_of(SlotKind kind) {
  switch (kind) {
    case SlotKind::master: return "master";
    case SlotKind::compute_copy: return "compute_copy";
    case SlotKind::gradient: return "gradient";
    case SlotKind::optimizer_state: return "optimizer_state";
    case SlotKind::own_weights: return "own_weights";
    case SlotKind::shared: return "shared";
    case SlotKind::cache: return "cache";
    case SlotKind::gathered: return "gathered";
    case SlotKind::kept_weights: return "kept_weights";
    case SlotKind::local_gradient: return "local_gradient";
    case SlotKind::cast_gradient: return "cast_gradient";
    case SlotKind::shard_gradient: return "shard_gradient";
    case SlotKind::peer_gradient: return "peer_gradient";
    case SlotKind::step_gradient: return "step_gradient";
    case SlotKind::fetched_weights: return "fetched_weights";
    case SlotKind::fetched_state: return "fetched_state";
    case SlotKind::stash: return "stash";
    case SlotKind::host_stash: return "host_stash";
    case SlotKind::fetched_stash: return "fetched_stash";
    case SlotKind::boundary: return "boundary";
    case SlotKind::boundary_gradient: return "boundary_gradient";
    case SlotKind::kept: return "kept";
    case SlotKind::deferred: return "deferred";
    case SlotKind::workspace: return "workspace";
  }
  fail(ExitCode::bug, "unknown SlotKind {}", static_cast<int>(kind));
}

bool lives_all_run(SlotKind kind) { return kind <= SlotKind::cache; }

const RankClass& StepProgram::class_of(Rank rank) const& {
  for (const RankClass& ranks : classes)
    if (std::binary_search(ranks.ranks.begin(), ranks.ranks.end(), rank)) return ranks;
  fail(ExitCode::usage, "program {} has no rank {}: its ranks are 0 to {}", name, rank, world_size(mesh) - 1);
}

KeepSet keeps_of(const StepProgram& program, int block) {
  const auto index = static_cast<std::size_t>(block);
  return index < program.keeps.size() ? program.keeps[index] : KeepSet();
}

const std::vector<BlockExchange>& exchanges_of(const StepProgram& program, const Action& action) {
  static const std::vector<BlockExchange> none;
  if (!exchanges_within(action)) return none;
  if (action.op == Op::optimizer) return program.update_exchanges.at(static_cast<std::size_t>(action.subject.index));
  const BlockExchanges& block = program.exchanges.at(static_cast<std::size_t>(action.subject.index));
  if (action.op == Op::recompute) return block.recompute;
  return action.op == Op::forward ? block.forward : block.backward;
}

bool offloads_state(const RankClass& ranks) {
  return std::ranges::any_of(ranks.actions, [](const Action& action) {
    return action.op == Op::offload_state || action.op == Op::offload_gradient;
  });
}

int device_waits(const StepProgram& program, const RankClass& ranks) {
  int waits = offloads_state(ranks) ? 1 : 0;
  for (const Action& action : ranks.actions) {
    if (action.op == Op::heartbeat || action.op == Op::reduce_loss || action.op == Op::draw_tokens) ++waits;
    waits += static_cast<int>(std::ranges::count_if(exchanges_of(program, action), [](const BlockExchange& exchange) {
      return exchange.kind == BlockExchange::Kind::all_gather && exchange.axes == std::vector{expert_axis};
    }));
  }
  return waits;
}

int cell_count(const StepProgram& program) {
  int count = 1;
  for (const AxisName& name : program.apart) count *= find_axis(program.mesh, name)->size;
  return count;
}

std::vector<AxisName> cell_axes(const StepProgram& program) {
  std::vector<AxisName> axes;
  for (const Axis& axis : program.mesh.axes)
    if (std::ranges::find(program.apart, axis.name) == program.apart.end()) axes.push_back(axis.name);
  return axes;
}

std::optional<Rank> peer_of(const Mesh& mesh, Rank rank, const Action& transfer) {
  const Axis* axis = find_axis(mesh, transfer.group.front());
  const int peer = coordinate(mesh, rank, transfer.group.front()) + transfer.offset;
  if (axis == nullptr || peer < 0 || peer >= axis->size) return std::nullopt;
  return rank + transfer.offset * axis->stride;
}

Json to_json(const StepProgram& program) {
  Json json{{"name", program.name},          {"mesh", to_json(program.mesh)}, {"micro_batches", program.micro_batches},
            {"blocks", program.block_names}, {"units", program.unit_names},   {"classes", array_of(program.classes)}};
  if (!program.apart.empty()) json["apart"] = program.apart;
  if (!program.exchanges.empty()) json["exchanges"] = array_of(program.exchanges);
  for (const std::vector<BlockExchange>& unit : program.update_exchanges)
    json["update_exchanges"].push_back(array_of(unit));
  if (program.row_shares > 1) json["row_shares"] = program.row_shares;
  for (const KeepSet keeps : program.keeps) json["keeps"].push_back(keeps.text());
  return json;
}

Hash128 hash_of(const StepProgram& program) { return hash128(to_text(to_json(program))); }

std::optional<std::string> difference(const StepProgram& a, const StepProgram& b) {
  if (a.name != b.name) return fmt::format("one program is {}, the other {}", a.name, b.name);
  if (a.mesh != b.mesh) return std::string("the meshes differ");
  if (a.micro_batches != b.micro_batches)
    return fmt::format("{} micro-batches in one program, {} in the other", a.micro_batches, b.micro_batches);
  if (a.apart != b.apart) return std::string("the axes along which weights are separate differ");
  if (a.exchanges != b.exchanges) return std::string("the communication within blocks differs");
  if (a.update_exchanges != b.update_exchanges) return std::string("the communication of updates differs");
  if (a.row_shares != b.row_shares) return std::string("the number of ranks that divide the rows differs");
  if (a.keeps != b.keeps) return std::string("the activations that recomputed blocks keep differ");
  if (a.block_names != b.block_names || a.unit_names != b.unit_names) return std::string("the blocks or units differ");
  if (a.classes.size() != b.classes.size())
    return fmt::format("{} classes of ranks in one program, {} in the other", a.classes.size(), b.classes.size());
  for (std::size_t i = 0; i < a.classes.size(); ++i)
    if (auto found = difference(a, a.classes[i], b, b.classes[i], i)) return found;
  return std::nullopt;
}

}  // namespace lockstep
