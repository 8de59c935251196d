// What an action copies between host memory and that of the device: on lanes of the transport, beside the computation.
#include "base/error.hpp"
#include "engine/run.hpp"
#include "tensor/arena.hpp"

namespace lockstep {

void Engine::copy(Run& run, const Action& action, std::size_t position) {
  wait_for(run, action);
  const auto issue = [&] {
    run.tickets[position] =
        transport_.copy(static_cast<int>(action.lane), transport_.group_along({}), copies_of(run, action));
  };
  if (action.op == Op::fetch_weights)
    issue();  // a rank that failed gives them to a gathering all the same
  else
    run.attempt(issue);
}

std::vector<RegionCopy> Engine::copies_of(Run& run, const Action& action) {
  Unit& unit = unit_of(action.subject);
  switch (action.op) {
    case Op::fetch_weights: {
      const at::Tensor memory = unit_memory(unit, unit.length(), compute_type(unit.precision()), "fetched shard");
      run.slots.acquire(action.slots.acquires.front(), {.input = {}, .value = memory});
      return {unit.fetch_shard(memory)};
    }
    case Op::offload_gradient: {
      const RegionCopy copy = unit.offload_gradient();
      unit.lend_gradient({});
      return {copy};
    }
    case Op::fetch_state: {
      const at::Tensor memory = unit_memory(unit, unit.update_bytes(), at::kByte, "fetched state");
      run.slots.acquire(action.slots.acquires.front(), {.input = {}, .value = memory});
      return unit.fetch_update(memory);
    }
    case Op::offload_state: return unit.offload_update(run.slots.at(action.slots.releases.front()).value);
    default: break;
  }
  fail(ExitCode::bug, "the engine does not know the copy {}", name_of(action.op));
}

}  // namespace lockstep
