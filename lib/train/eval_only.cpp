#include "train/eval_only.hpp"

#include "app/agreed_start.hpp"
#include "base/json.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "engine/engine.hpp"
#include "train/evaluation.hpp"
#include "train/kept_run.hpp"
#include "train/run_model.hpp"
#include "train/run_preparation.hpp"
#include "train/run_seed.hpp"
#include "train/run_setup.hpp"

#include <cmath>
#include <vector>

namespace lockstep {

int evaluate_only(const TrainConfig& given, Session& session, Output& output) {
  Communicator& world = session.world();
  session.configure(session_settings(given, {}));  // no folder: nothing is written
  agree_on_start(world, output.settings());
  const Machines machines = set_up_machines(given, world);
  TrainConfig placed;
  together(world, "lay out the ranks", [&] { placed = with_nodes_filled(given, machines.placement.nodes); });
  const TrainConfig config = with_kept_multiple(with_prepared_data(with_local_model(with_seed(placed, world), session),
                                                                   WithoutPrepared::prepare, session, output),
                                                world);
  const TrainPlan plan = agree_on_plan(config, world);
  if (world.rank() == 0)
    for (const std::string& warning : warnings_on_model(config, plan)) output.log().warning("{}", warning);
  for (const std::string& note : plan.weights.notes) output.log().info("{}", note);
  if (config.precision.product_search && plan.device && world.rank() == 0)
    output.log().info(
        "precision.product_search has no effect on --eval-only: products take the first proposal, so losses may differ "
        "from those of the run in their last digits");
  const std::unique_ptr<ShardVerifier> verifier = make_verifier(config.data.verify, world.rank(), machines.hosts);
  for (const EvaluationPlan& evaluation : plan.evaluations)
    if (const auto& stream = evaluation.set.stream) verifier->use(*stream, 0, stream->tokens());
  std::optional<RunState> state;
  together(world, "make the model", [&] {
    session.enter(Phase::start_up);
    state.emplace(config, plan, session.world().rank());
  });
  const std::optional<Path> checkpoint =
      state->fill(config, plan, world_of(plan, machines), {}, session, output.log()).checkpoint;

  Transport transport = make_transport(session, plan.programs);
  Engine engine(state->model, *state->optimizer, plan.programs, session, transport, config.optimizer.clip_norm);
  std::vector<EvalRecord> measured;
  for (const EvaluationPlan& evaluation : plan.evaluations)
    measured.push_back(evaluate(engine, config, plan, evaluation, session, state->train_state.step, [] {}));
  verifier->settle(session);
  together(world, "print the loss", [&] {
    session.enter(Phase::shutdown, state->train_state.step);
    if (world.rank() != 0) return;
    for (std::size_t i = 0; i < measured.size(); ++i) {
      output.log().info("{}: {} loss {:.4f} on {}", checkpoint ? checkpoint->string() : *config.model.path,
                        plan.evaluations[i].metrics, measured[i].loss, plan.evaluations[i].identity);
      output.print(to_text(to_json(measured[i])) + "\n");
    }
  });
  for (const EvalRecord& record : measured)
    if (!std::isfinite(record.loss))
      throw AgreedError(
          Error(ExitCode::numerics, record.name ? fmt::format("the loss on {} is not finite", *record.name)
                                                : "the validation loss is not finite"),
          0);
  return 0;
}

}  // namespace lockstep
