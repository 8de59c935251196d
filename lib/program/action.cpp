#include "program/action.hpp"

#include "base/error.hpp"

namespace lockstep {

std::string_view name_of(Op op) {
  switch (op) {
    case Op::forward: return "forward";
    case Op::recompute: return "recompute";
    case Op::backward: return "backward";
    case Op::finish_gradient: return "finish_gradient";
    case Op::all_reduce: return "all_reduce";
    case Op::gradient_norm: return "gradient_norm";
    case Op::heartbeat: return "heartbeat";
    case Op::clip: return "clip";
    case Op::optimizer: return "optimizer";
    case Op::reduce_loss: return "reduce_loss";
  }
  throw Error(ExitCode::bug, "an operation without a name");
}

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
    case Lane::reduction: return "reduction";
  }
  throw Error(ExitCode::bug, "a lane without a name");
}

bool is_collective(Op op) { return op == Op::all_reduce || op == Op::heartbeat || op == Op::reduce_loss; }

}  // namespace lockstep
