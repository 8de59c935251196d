#include "comm/heartbeat.hpp"

#include "comm/failure.hpp"

#include <vector>

namespace lockstep {

namespace {
constexpr std::size_t request_bits = 6;
enum Field : std::size_t {
  loss,
  aux_loss,
  norm,
  correct,
  tokens,
  next_tokens,
  next_samples,
  stop_after_step,
  stop_now,
  failures,
  first_request,
  fields = first_request + request_bits
};
static_assert(fields * sizeof(double) == heartbeat_bytes);

[[noreturn]] void throw_for_all(Communicator& ranks, const std::exception_ptr& mine) {
  std::vector<Failure> failed;
  for (const std::string& text : ranks.all_gather(mine ? encode(failure_of(mine, ranks)) : std::string())) {
    if (!text.empty()) failed.push_back(decode_failure(text));
  }
  throw explain(failed, ranks.size(), {});
}
}  // namespace

HeartbeatData heartbeat(Transport& transport, int lane, int group, Communicator& world, const HeartbeatData& mine) {
  // Only sums: a level is the number of ranks that ask for it, a request or a failure the number of ranks that have it.
  std::vector<double> wire(fields);
  wire[loss] = mine.loss_sum;
  wire[aux_loss] = mine.aux_loss_sum;
  wire[norm] = mine.grad_norm_squared;
  wire[correct] = static_cast<double>(mine.correct);
  wire[tokens] = static_cast<double>(mine.tokens);
  wire[next_tokens] = static_cast<double>(mine.next_tokens);
  wire[next_samples] = static_cast<double>(mine.next_samples);
  wire[stop_after_step] = mine.stop == StopLevel::after_step ? 1 : 0;
  wire[stop_now] = mine.stop == StopLevel::now ? 1 : 0;
  wire[failures] = mine.failure ? 1 : 0;
  for (std::size_t bit = 0; bit < request_bits; ++bit)
    wire[first_request + bit] = static_cast<unsigned>(mine.requests) >> bit & 1u;
  for (const auto* const more : {&mine.loads, &mine.next_uses, &mine.drawn})
    wire.insert(wire.end(), more->begin(), more->end());
  transport.wait(transport.all_reduce(lane, group, std::as_writable_bytes(std::span(wire)), DType::f64, Reduce::sum));
  if (wire[failures] > 0) throw_for_all(world, mine.failure);

  HeartbeatData all;
  all.loss_sum = wire[loss];
  all.aux_loss_sum = wire[aux_loss];
  all.grad_norm_squared = wire[norm];
  all.correct = static_cast<std::int64_t>(wire[correct]);
  all.tokens = static_cast<std::int64_t>(wire[tokens]);
  all.next_tokens = static_cast<std::int64_t>(wire[next_tokens]);
  all.next_samples = static_cast<std::int64_t>(wire[next_samples]);
  const auto loads = wire.begin() + static_cast<std::ptrdiff_t>(fields);
  const auto uses = loads + std::ssize(mine.loads);
  all.loads.assign(loads, uses);
  const auto drawn = uses + std::ssize(mine.next_uses);
  all.next_uses.assign(uses, drawn);
  all.drawn.assign(drawn, wire.end());
  all.stop = wire[stop_now] > 0 ? StopLevel::now : wire[stop_after_step] > 0 ? StopLevel::after_step : StopLevel::none;
  for (std::size_t bit = 0; bit < request_bits; ++bit) {
    if (wire[first_request + bit] > 0) all.requests = all.requests | static_cast<Request>(1u << bit);
  }
  return all;
}

}  // namespace lockstep
