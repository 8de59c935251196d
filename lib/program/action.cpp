#include "program/action.hpp"

#include "base/error.hpp"

namespace lockstep {

const OpFacts& facts_of(Op op) {
  using Kind = Subject::Kind;
  using Of = OpFacts::Of;
  using Group = OpFacts::Group;
  static constexpr OpFacts forward{"forward", Kind::block, Of::micro_batch, Group::none, Lane::compute},
      recompute{"recompute", Kind::block, Of::micro_batch, Group::none, Lane::compute},
      backward{"backward", Kind::block, Of::micro_batch, Group::none, Lane::compute},
      unshard{"unshard", Kind::unit, Of::step, Group::collective, Lane::gather},
      reshard{"reshard", Kind::unit, Of::step, Group::none, Lane::compute},
      finish_gradient{"finish_gradient", Kind::unit, Of::either, Group::none, Lane::compute},
      reduce_scatter{"reduce_scatter", Kind::unit, Of::either, Group::collective, Lane::reduction},
      all_reduce{"all_reduce", Kind::unit, Of::either, Group::collective, Lane::reduction},
      gradient_norm{"gradient_norm", Kind::unit, Of::step, Group::shared, Lane::compute},
      heartbeat{"heartbeat", Kind::none, Of::step, Group::collective, Lane::reduction},
      clip{"clip", Kind::none, Of::step, Group::none, Lane::compute},
      optimizer{"optimizer", Kind::unit, Of::step, Group::none, Lane::compute},
      reduce_loss{"reduce_loss", Kind::none, Of::step, Group::collective, Lane::reduction};
  switch (op) {
    case Op::forward: return forward;
    case Op::recompute: return recompute;
    case Op::backward: return backward;
    case Op::unshard: return unshard;
    case Op::reshard: return reshard;
    case Op::finish_gradient: return finish_gradient;
    case Op::reduce_scatter: return reduce_scatter;
    case Op::all_reduce: return all_reduce;
    case Op::gradient_norm: return gradient_norm;
    case Op::heartbeat: return heartbeat;
    case Op::clip: return clip;
    case Op::optimizer: return optimizer;
    case Op::reduce_loss: return reduce_loss;
  }
  throw Error(ExitCode::bug, "an operation without facts");
}

std::string_view name_of(Op op) { return facts_of(op).name; }

bool is_collective(Op op) { return facts_of(op).group == OpFacts::Group::collective; }

bool behind_computation(Op op) { return is_collective(op) && facts_of(op).subject == Subject::Kind::unit; }

std::string_view name_of(Subject::Kind kind) {
  switch (kind) {
    case Subject::Kind::none: return "none";
    case Subject::Kind::stage: return "stage";
    case Subject::Kind::block: return "block";
    case Subject::Kind::unit: return "unit";
    case Subject::Kind::boundary: return "boundary";
  }
  throw Error(ExitCode::bug, "a kind of subject without a name");
}

std::string_view name_of(Lane lane) {
  switch (lane) {
    case Lane::compute: return "compute";
    case Lane::gather: return "gather";
    case Lane::reduction: return "reduction";
    case Lane::replica: return "replica";
  }
  throw Error(ExitCode::bug, "a lane without a name");
}

}  // namespace lockstep
