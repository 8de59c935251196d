#include "train/eval_only.hpp"

#include "base/json.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "engine/engine.hpp"
#include "train/evaluation.hpp"
#include "train/run_setup.hpp"

#include <cmath>

namespace lockstep {

int evaluate_only(const TrainConfig& config, Session& session, Output& output) {
  Communicator& world = session.world();
  session.configure(session_settings(config, {}));  // no folder: nothing is written
  const Machines machines = set_up_machines(config, world);
  const TrainPlan plan = agree_on_plan(config, world);
  const std::unique_ptr<ShardVerifier> verifier = make_verifier(config.data.verify, world.rank(), machines.hosts);
  verifier->use(*plan.validation, 0, plan.validation->tokens());
  std::optional<RunState> state;
  together(world, "make the model", [&] {
    session.enter(Phase::start_up);
    state.emplace(config, plan, session.world().rank());
  });
  const std::optional<Path> checkpoint = state->fill(config, plan, world_of(plan, machines), {}, session, output.log());

  Transport transport = make_transport(session, plan.programs);
  Engine engine(state->model, *state->optimizer, plan.programs, session, transport, config.optimizer.clip_norm);
  const EvalRecord record = evaluate(engine, config, plan, session, state->train_state.step);
  verifier->settle(session);
  together(world, "print the loss", [&] {
    session.enter(Phase::shutdown, record.step);
    if (world.rank() != 0) return;
    output.log().info("{}: validation loss {:.4f} on {}", checkpoint ? checkpoint->string() : *config.model.path,
                      record.loss, plan.evaluation);
    output.print(to_text(to_json(record)) + "\n");
  });
  if (!std::isfinite(record.loss)) throw AgreedError(Error(ExitCode::numerics, "the validation loss is not finite"), 0);
  return 0;
}

}  // namespace lockstep
