// What an action copies between host memory and that of the device: on lanes of the transport, beside the computation.
#include "base/error.hpp"
#include "base/text.hpp"
#include "engine/run.hpp"
#include "tensor/arena.hpp"

#include <memory>
#include <utility>

namespace lockstep {

namespace {

/// What takes memory, for the activations of a block; a system that has none is told of by what it was for.
template <class Work>
auto with_memory(const StepProgram& program, const Action& action, std::string_view where, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const Error&) {
    throw;
  } catch (c10::OutOfMemoryError& error) {  // of a device, with its numbers
    error.add_context("for the activations of " + to_text(program, action.subject));
    throw;
  } catch (const std::exception&) {  // c10::Error and std::bad_alloc alike
    throw Error(
        ExitCode::resources,
        fmt::format("cannot take {} of {} for the activations of {}: out of memory",
                    human_bytes(static_cast<std::uint64_t>(action.bytes)), where, to_text(program, action.subject)),
        "use a smaller train.micro_batch or --train.recompute block");
  }
}

}  // namespace

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
  switch (action.op) {
    case Op::fetch_weights: {
      Unit& unit = unit_of(action.subject);
      const at::Tensor memory = unit_memory(unit, unit.length(), compute_type(unit.precision()), "fetched shard");
      run.slots.acquire(action.slots.acquires.front(), {.input = {}, .value = memory});
      return {unit.fetch_shard(memory)};
    }
    case Op::offload_gradient: {
      Unit& unit = unit_of(action.subject);
      const RegionCopy copy = unit.offload_gradient();
      unit.lend_gradient({});
      return {copy};
    }
    case Op::fetch_state: {
      Unit& unit = unit_of(action.subject);
      const at::Tensor memory = unit_memory(unit, unit.update_bytes(), at::kByte, "fetched state");
      run.slots.acquire(action.slots.acquires.front(), {.input = {}, .value = memory});
      return unit.fetch_update(memory);
    }
    case Op::offload_state:
      return unit_of(action.subject).offload_update(run.slots.at(action.slots.releases.front()).value);
    case Op::offload_stash: return offload_stash(run, action);
    case Op::fetch_stash: return fetch_stash(run, action);
    case Op::forward:
    case Op::recompute:
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight:
    case Op::receive_forward:
    case Op::send_forward:
    case Op::receive_backward:
    case Op::send_backward:
    case Op::unshard:
    case Op::reshard:
    case Op::finish_gradient:
    case Op::reduce_scatter:
    case Op::all_reduce:
    case Op::send_gradient:
    case Op::receive_gradient:
    case Op::add_gradient:
    case Op::gradient_norm:
    case Op::reduce_norm:
    case Op::heartbeat:
    case Op::clip:
    case Op::optimizer:
    case Op::average_weights:
    case Op::finish_average:
    case Op::reduce_loss:
    case Op::draw_tokens: break;
  }
  fail(ExitCode::bug, "{} is not a copy between host and device", name_of(action.op));
}

/// Autograd's graph goes along; what it saved has its memory elsewhere.
std::vector<RegionCopy> Engine::offload_stash(Run& run, const Action& action) {
  const int from = action.slots.releases.front();
  SlotContent stash = run.slots.at(from);
  SavedMemory::Move out = with_memory(run.program, action, "host memory", [&] { return stash.saved->move_out(); });
  run.slots.replace(from, {.input = {}, .value = {}, .memory = std::move(out.left)});
  run.slots.acquire(action.slots.acquires.front(), std::move(stash));
  return std::move(out.copies);
}

std::vector<RegionCopy> Engine::fetch_stash(Run& run, const Action& action) {
  const SlotContent& stash = run.slots.at(action.slots.releases.front());
  std::vector<RegionCopy> copies = with_memory(run.program, action, "memory", [&] { return stash.saved->move_in(); });
  run.slots.acquire(action.slots.acquires.front(), {.input = stash.input, .value = stash.value});
  return copies;
}

}  // namespace lockstep
