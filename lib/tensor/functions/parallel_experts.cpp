#include "tensor/functions/parallel_experts.hpp"

#include "tensor/functions/checked_function.hpp"
#include "tensor/saved_memory.hpp"
#include "tensor/weight_gradients.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/sub.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace lockstep {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

std::int64_t sum_of(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

/// Rows of a rank, in the part of those that its experts take that one round is about.
struct Window {
  std::int64_t begin = 0, end = 0;
  std::int64_t clipped(std::int64_t row) const { return std::clamp(row, begin, end); }
};

}  // namespace

ExpertRoutePlan::ExpertRoutePlan(const at::Tensor& table, int rank, double capacity)
    : ranks_(table.size(0)), experts_(table.size(1)), rank_(rank) {
  const std::span<const double> values(table.const_data_ptr<double>(), static_cast<std::size_t>(table.numel()));
  for (const double value : values) counts_.push_back(static_cast<std::int64_t>(value));
  const std::int64_t each = experts_ / ranks_;
  std::int64_t most = 0;
  for (std::int64_t to = 0; to < ranks_; ++to) {
    std::int64_t rows = 0;
    for (std::int64_t expert = to * each; expert < (to + 1) * each; ++expert)
      for (std::int64_t from = 0; from < ranks_; ++from) rows += count(from, expert);
    most = std::max(most, rows);
  }
  const double even = static_cast<double>(sum_of(counts_)) / static_cast<double>(ranks_);
  at_once_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(capacity * even)));
  rounds_ = std::max<std::int64_t>(1, ceil_div(most, at_once_));
}

std::int64_t ExpertRoutePlan::Round::taken() const { return sum_of(received); }

ExpertRoutePlan::Round ExpertRoutePlan::round(std::int64_t number) const {
  const Window window{number * at_once_, (number + 1) * at_once_};
  const std::int64_t each = experts_ / ranks_;
  Round round{.first = {},
              .sent = {},
              .received = std::vector<std::int64_t>(static_cast<std::size_t>(ranks_)),
              .segments = {},
              .offsets = at::empty({each + 1}, at::TensorOptions().dtype(at::kLong))};
  auto* const offsets = round.offsets.mutable_data_ptr<std::int64_t>();
  std::vector<std::vector<Round::Segment>> from_each(static_cast<std::size_t>(ranks_));
  std::int64_t own = 0;  // of this rank's rows
  for (std::int64_t to = 0; to < ranks_; ++to) {
    std::int64_t row = 0;  // of those that the experts of `to` take: of each in turn, those of each rank in turn
    std::int64_t skipped = 0, sent = 0;
    const std::int64_t first = own;
    for (std::int64_t expert = to * each; expert < (to + 1) * each; ++expert) {
      if (to == rank_) offsets[expert - to * each] = window.clipped(row) - window.begin;
      for (std::int64_t from = 0; from < ranks_; ++from) {
        const std::int64_t begin = window.clipped(row), end = window.clipped(row + count(from, expert));
        if (from == rank_) {
          if (sent == 0) skipped += std::min(window.begin, row + count(from, expert)) - std::min(window.begin, row);
          sent += end - begin;
          own += count(from, expert);
        }
        if (to == rank_ && end > begin)
          from_each[static_cast<std::size_t>(from)].push_back({0, begin - window.begin, end - begin});
        row += count(from, expert);
      }
    }
    if (to == rank_) offsets[each] = window.clipped(row) - window.begin;
    round.first.push_back(first + skipped);
    round.sent.push_back(sent);
  }
  std::int64_t arrived = 0;
  for (std::size_t from = 0; from < from_each.size(); ++from)
    for (Round::Segment segment : from_each[from]) {
      segment.arrived = arrived;
      arrived += segment.rows;
      round.received[from] += segment.rows;
      round.segments.push_back(segment);
    }
  return round;
}

at::Tensor expert_table(const Routing& routing, const BlockLane& lane) {
  const std::int64_t experts = routing.shape.experts;
  const at::Tensor counts = routing.offsets.narrow(0, 1, experts).sub(routing.offsets.narrow(0, 0, experts));
  return lane.all_gather(counts.to(at::kDouble)).cpu();
}

at::Tensor ParallelExperts::to_experts(const at::Tensor& rows, const ExpertRoutePlan::Round& round) const {
  at::Tensor packed = rows;
  if (const std::int64_t sent = sum_of(round.sent); sent < rows.size(0)) {
    packed = at::empty({sent, rows.size(1)}, rows.options());
    std::int64_t place = 0;
    for (std::size_t to = 0; to < round.sent.size(); ++to) {
      packed.narrow(0, place, round.sent[to]).copy_(rows.narrow(0, round.first[to], round.sent[to]));
      place += round.sent[to];
    }
  }
  const at::Tensor arrived = lane_->all_to_all_rows(packed, round.sent, round.received);
  const at::Tensor grouped = at::empty(arrived.sizes(), arrived.options());
  for (const auto& [from, to, count] : round.segments)
    grouped.narrow(0, to, count).copy_(arrived.narrow(0, from, count));
  return grouped;
}

void ParallelExperts::from_experts(const at::Tensor& grouped, const ExpertRoutePlan::Round& round,
                                   const at::Tensor& rows) const {
  const at::Tensor packed = at::empty(grouped.sizes(), grouped.options());
  for (const auto& [to, from, count] : round.segments)
    packed.narrow(0, to, count).copy_(grouped.narrow(0, from, count));
  const at::Tensor arrived = lane_->all_to_all_rows(packed, round.received, round.sent);
  std::int64_t place = 0;
  for (std::size_t from = 0; from < round.sent.size(); ++from) {
    rows.narrow(0, round.first[from], round.sent[from]).copy_(arrived.narrow(0, place, round.sent[from]));
    place += round.sent[from];
  }
}

struct ParallelExpertsFunction {
  static constexpr std::string_view name = "parallel experts";
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const ParallelExperts* experts,
                            const Routing* routing, const at::Tensor& table, ParallelExperts::Values* values) {
    const ExpertRoutePlan ways = experts->ways(table);
    at::Tensor given = values->lowered, rows = dispatched(x, routing->places, routing->shape, routing->rows);
    const bool computes = !given.defined();
    if (computes) given = at::empty(rows.sizes(), rows.options());
    for (std::int64_t number = 0; number < (computes ? ways.rounds() : 1); ++number) {
      const ExpertRoutePlan::Round round = ways.round(number);
      const at::Tensor offsets = round.offsets.to(x.device());
      const bool first = number == 0;
      const at::Tensor taken = experts->to_experts(rows, round);
      const at::Tensor raised =
          first && values->raised.defined() ? values->raised : experts->up_->forward(taken, offsets);
      const at::Tensor activated = gated(raised, experts->activation_);
      if (first && values->leaves) values->raised = raised;
      if (first && x.requires_grad()) {  // where backward lets go of each as soon as it is used
        context->saved_data["taken"] = taken;
        context->saved_data["raised"] = raised;
        context->saved_data["activated"] = activated;
        note_saved({x, routing->places, taken, raised, activated});
      }
      if (computes) experts->from_experts(experts->down_->forward(activated, offsets), round, given);
    }
    if (values->leaves) values->lowered = given.detach();
    context->saved_data["experts"] = reinterpret_cast<std::int64_t>(experts);
    context->saved_data["per_token"] = routing->shape.per_token;
    context->save_for_backward({x, routing->places, table});
    return given.detach();
  }

  static FunctionCosts costs(const at::Tensor& x, const ParallelExperts* experts, const Routing* routing,
                             const at::Tensor& table, const ParallelExperts::Values* values) {
    return experts->costs(x, *routing, table, *values);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto& experts = *reinterpret_cast<const ParallelExperts*>(context->saved_data["experts"].toInt());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &places = saved[1], &table = saved[2], dgiven = gradients[0].contiguous();
    const RoutingShape shape{.tokens = x.size(0), .per_token = context->saved_data["per_token"].toInt()};
    const auto take = [&](const char* name) {
      const at::Tensor value = context->saved_data[name].toTensor();
      context->saved_data.erase(name);
      return value;
    };
    const ExpertRoutePlan ways = experts.ways(table);
    const at::Tensor drows = at::empty(dgiven.sizes(), dgiven.options());
    at::Tensor taken = take("taken"), raised = take("raised"), activated = take("activated"), rows;
    if (ways.rounds() > 1) rows = dispatched(x, places, shape, dgiven.size(0));
    for (std::int64_t number = 0; number < ways.rounds(); ++number) {
      const ExpertRoutePlan::Round round = ways.round(number);
      const at::Tensor offsets = round.offsets.to(x.device());
      if (number > 0) {
        taken = experts.to_experts(rows, round);
        raised = experts.up_->forward(taken, offsets);
        activated = gated(raised, experts.activation_);
      }
      const auto add = [&](const GroupedLinear* linear, const at::Tensor& input, const at::Tensor& gradient) {
        if (number > 0) return linear->backward_weight(input, gradient, offsets);  // kept until later it would
        add_weight_gradient(                                                       // take memory for all rounds
            input, gradient,
            [linear, offsets](const at::Tensor& u, const at::Tensor& du) { linear->backward_weight(u, du, offsets); });
      };
      at::Tensor gradient = experts.to_experts(dgiven, round);
      at::Tensor before = experts.down_->backward_input(gradient, offsets);
      add(experts.down_, activated, gradient);
      activated.reset();
      gradient = gated_backward(raised, before, experts.activation_);
      raised.reset();
      before = experts.up_->backward_input(gradient, offsets);
      add(experts.up_, taken, gradient);
      taken.reset();
      gradient.reset();
      experts.from_experts(before, round, drows);
    }
    return {dispatched_backward(drows, places, shape), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

FunctionCosts ParallelExperts::costs(const at::Tensor& x, const Routing& routing, const at::Tensor& table,
                                     const Values& values) const {
  const ExpertRoutePlan plan = ways(table);
  std::int64_t taken = 0;
  for (std::int64_t number = 0; number < plan.rounds(); ++number) taken = std::max(taken, plan.round(number).taken());
  const FirstRound first = x.requires_grad() ? FirstRound::left_to_backward
                           : values.leaves   ? FirstRound::raised_as_result
                                             : FirstRound::freed;
  return parallel_experts_costs(call_rows(x.size(0), x.scalar_type()),
                                {.ranks = table.size(0),
                                 .experts = table.size(1),
                                 .channels = x.size(1),
                                 .feed_forward = up_->out() / 2,
                                 .given = routing.rows,
                                 .taken = taken,
                                 .further_rounds = plan.rounds() - 1},
                                first);
}

at::Tensor ParallelExperts::operator()(const at::Tensor& x, const Routing& routing, const at::Tensor& table,
                                       Values& values) const {
  return CheckedFunction<ParallelExpertsFunction>::apply(x, this, &routing, table, &values);
}

}  // namespace lockstep
