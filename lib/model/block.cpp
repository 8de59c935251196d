#include "model/block.hpp"

#include "base/error.hpp"
#include "tensor/arena.hpp"
#include "tensor/functions/activation.hpp"
#include "tensor/functions/attention.hpp"
#include "tensor/functions/cached_attention.hpp"
#include "tensor/functions/embedding.hpp"
#include "tensor/functions/experts.hpp"
#include "tensor/functions/head_exchange.hpp"
#include "tensor/functions/head_norm.hpp"
#include "tensor/functions/linear.hpp"
#include "tensor/functions/loss.hpp"
#include "tensor/functions/norm.hpp"
#include "tensor/functions/parallel_experts.hpp"
#include "tensor/functions/ring_attention.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep {

Block::Block(const BlockDescription& description, Precision precision, std::vector<Parameter*> parameters)
    : description_(description),
      precision_(precision),
      output_type_(stream_type(precision)),
      parameters_(std::move(parameters)) {
  invariant(parameters_.size() == description_.tensors.size(), "a block has a parameter for each of its tensors");
}

namespace {

at::Tensor cast(const at::Tensor& x, at::ScalarType type) {
  return !x.defined() || x.scalar_type() == type ? x : x.to(type);
}

}  // namespace

at::Tensor Block::forward(const at::Tensor& x, const BatchTensors& batch, Replay* replay) {
  Replay own;
  const at::Tensor output = compute(cast(x, stream_type(precision_)), batch, replay ? *replay : own);
  return kind() == BlockDescription::Kind::head ? output : cast(output, output_type_);
}

Parameter* Block::find(Role role) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (description_.tensors[i].role == role) return parameters_[i];  // a tied parameter has the role of its owner
  }
  return nullptr;
}

Parameter& Block::get(Role role) const {
  Parameter* parameter = find(role);
  if (!parameter) fail(ExitCode::bug, "the block has no {}", name_of(role));
  return *parameter;
}

namespace {

WeightLayout layout_of(const ModelConfig& config) {
  return config.family == Family::gpt2 ? WeightLayout::in_out : WeightLayout::out_in;
}

/// Of an embedding the layer is 0.
Dropout dropout_of(double rate, const BatchTensors& batch, int layer, DropoutSite site) {
  if (!batch.places.defined()) return {};
  return {dropout_mask(rate, batch.draw.seed, batch.draw.step, layer, site),
          site == DropoutSite::attention ? batch.attended_places : batch.places};
}

class Embedding : public Block {
 public:
  Embedding(const ModelConfig& config, const BlockDescription& description, Precision precision,
            std::vector<Parameter*> parameters)
      : Block(description, precision, std::move(parameters)),
        dropout_(config.dropout.embedding),
        tokens_(&get(Role::token_embedding)),
        positions_(find(Role::position_embedding)) {}

  void share(const BlockLanes& lanes) override { lane_ = lanes.tensor; }

  at::Tensor compute(const at::Tensor&, const BatchTensors& batch, Replay&) override {
    return embed(*tokens_, positions_, batch.tokens, batch.positions, stream_type(precision()), lane_,
                 dropout_of(dropout_, batch, 0, DropoutSite::embedding));
  }

 private:
  const BlockLane* lane_ = nullptr;
  double dropout_;
  Parameter* tokens_;
  Parameter* positions_;
};

/// In place of the sum that ends a layer, where its forward is repeated for what backward reads.
at::Tensor unread_sum(const at::Tensor& residual, const Replay& replay) {
  return replay.pass == Replay::Pass::repeated ? at::empty(residual.sizes(), residual.options()) : at::Tensor();
}

/// The second half of a decoder layer, behind its norm: x + f(norm(x)).
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual at::Tensor operator()(const Normalisation::Output& in, const BatchTensors& batch, Replay& replay,
                                const Dropout& dropout) const = 0;
  virtual void share(const BlockLanes& lanes) = 0;
};

class Mlp : public FeedForward {
 public:
  struct Layer {
    std::vector<Parameter*> weights, biases;
  };
  /// With a gate `up` has two weights, and their biases; else the activation adds the bias. A `row_gate` (1, C) says
  /// how much of what the MLP gives counts for each row.
  Mlp(const ModelConfig& config, const Layer& up, Parameter* up_bias, const Layer& down, Parameter* row_gate = nullptr)
      : activation_(config.activation),
        gated_(config.gated_mlp),
        up_(up.weights, up.biases, layout_of(config)),
        up_bias_(up_bias),
        down_(down.weights, down.biases, layout_of(config)) {
    if (row_gate) row_gate_.emplace(std::vector{row_gate}, std::vector<Parameter*>{nullptr}, layout_of(config));
  }

  void share(const BlockLanes& lanes) override {
    up_.share(lanes.tensor, Linear::CutBy::outputs);
    if (row_gate_) row_gate_->share(lanes.tensor, Linear::CutBy::outputs);  // each rank has its part of the gradient
    down_.share(lanes.tensor, Linear::CutBy::inputs);
  }

  at::Tensor operator()(const Normalisation::Output& in, const BatchTensors& batch, Replay& replay,
                        const Dropout& dropout) const override {
    const at::Tensor raised = up_(in.normalised, batch.rows(), replay.raised);
    if (replay.keeps.has(Keep::mlp)) replay.raised = raised;
    const at::Tensor row_gates = row_gate_ ? (*row_gate_)(in.normalised, batch.rows()) : at::Tensor();
    return down_.add_linear(
        in.residual, gated_ ? activate_gated(raised, activation_, row_gates) : activate(raised, activation_, up_bias_),
        dropout, unread_sum(in.residual, replay));
  }

 private:
  Activation activation_;
  bool gated_;
  Linear up_;
  Parameter* up_bias_;
  Linear down_;
  std::optional<Linear> row_gate_;
};

class ExpertMlps : public FeedForward {
 public:
  /// The parameters of experts are those of as many as there are, or of this rank's; `shared` null: no expert is
  /// shared.
  ExpertMlps(const ModelConfig& config, Parameter& router, Parameter& gate_up, Parameter& down,
             std::unique_ptr<Mlp> shared, double capacity)
      : activation_(config.activation),
        router_(router, config.experts.per_token, config.experts.normalised),
        up_(gate_up, gate_up.shape()[0] / (2 * config.experts.feed_forward)),
        down_(down, down.shape()[0] / config.channels),
        parallel_(up_, down_, config.activation, capacity),
        shared_(std::move(shared)) {}

  void share(const BlockLanes& lanes) override {
    invariant(lanes.tensor == nullptr || lanes.tensor->shares_rows(),
              "with experts, tensor-parallel ranks divide the rows");
    if (shared_) shared_->share(lanes);
    rows_ = lanes.tensor;
    sharers_ = lanes.samples;
    others_ = lanes.experts;
    parallel_.share(lanes.experts);
  }

  at::Tensor operator()(const Normalisation::Output& in, const BatchTensors& batch, Replay& replay,
                        const Dropout& dropout) const override {
    // Both parts of the sum lose the same of each row, so that dropout is that of the sum.
    const at::Tensor residual = shared_ ? (*shared_)(in, batch, replay, dropout) : in.residual;
    const std::int64_t own = rows_ ? rows_->own_rows(batch.rows()) : batch.rows(),
                       first = rows_ ? rows_->rank() * own : 0;
    const RoutedSamples samples{.of_rows = rows_ ? rows_->own_part(batch.row_samples, -1) : batch.row_samples,
                                .routed = batch.routed_rows(first, first + own),
                                .counted = batch.counts_choices,
                                .count = batch.samples,
                                .tokens = batch.length,
                                .sharers = sharers_,
                                .scale = batch.aux_scale};
    const Routing routing = router_(in.normalised, replay.experts, samples);
    replay.experts = routing.chosen;
    replay.loads = routing.choices;
    replay.aux_loss = routing.aux_loss;
    const at::Tensor rows =
        others_ ? of_all(in.normalised, routing, replay) : of_this_rank(in.normalised, routing, replay);
    return combine(residual, rows, routing, of_own_rows(dropout, rows_), unread_sum(residual, replay));
  }

 private:
  at::Tensor of_this_rank(const at::Tensor& x, const Routing& routing, Replay& replay) const {
    at::Tensor rows = dispatch(x, routing);
    rows = up_(rows, routing.offsets, replay.expert_raised);
    if (replay.keeps.has(Keep::experts)) replay.expert_raised = rows;
    rows = activate_gated(rows, activation_);
    rows = down_(rows, routing.offsets, replay.expert_lowered);
    if (replay.keeps.has(Keep::experts)) replay.expert_lowered = rows;
    return rows;
  }
  at::Tensor of_all(const at::Tensor& x, const Routing& routing, Replay& replay) const {
    if (!replay.expert_table.defined()) replay.expert_table = expert_table(routing, *others_);
    ParallelExperts::Values values{replay.expert_raised, replay.expert_lowered, replay.keeps.has(Keep::experts)};
    const at::Tensor rows = parallel_(x, routing, replay.expert_table, values);
    if (values.leaves) {
      replay.expert_raised = values.raised;
      replay.expert_lowered = values.lowered;
    }
    return rows;
  }

  Activation activation_;
  Router router_;
  GroupedLinear up_, down_;
  ParallelExperts parallel_;
  std::unique_ptr<Mlp> shared_;
  const BlockLane* others_ = nullptr;   // those that share out experts
  const BlockLane* rows_ = nullptr;     // those that have the rows of the stream between them
  const BlockLane* sharers_ = nullptr;  // of rows of the same samples
};

/// x + attention(norm(x)), then x + mlp(norm(x)).
class Decoder : public Block {
 public:
  Decoder(const ModelConfig& config, const BlockDescription& description, Precision precision,
          std::vector<Parameter*> parameters, RotaryTable* rotary, double expert_capacity)
      : Block(description, precision, std::move(parameters)),
        shape_{config.heads, config.kv_heads, config.head_size, config.window_of(description.layer)},
        dropout_(config.dropout),
        rotary_(rotary),
        attention_norm_(config.norm, config.norm_eps, get(Role::attention_norm), find(Role::attention_norm_bias)),
        qkv_(attention_inputs(), attention_input_biases(), layout_of(config)),
        attention_output_({&get(Role::attention_output)}, {find(Role::attention_output_bias)}, layout_of(config)),
        mlp_norm_(config.norm, config.norm_eps, get(Role::mlp_norm), find(Role::mlp_norm_bias)),
        feed_forward_(make_feed_forward(config, expert_capacity)) {
    if (config.query_key_norm) head_norm_.emplace(shape_, config.norm_eps, get(Role::query_norm), get(Role::key_norm));
  }

  void share(const BlockLanes& lanes) override {
    qkv_.share(lanes.tensor, Linear::CutBy::outputs);
    attention_output_.share(lanes.tensor, Linear::CutBy::inputs);
    feed_forward_->share(lanes);
    ulysses_ = lanes.ulysses;
    ring_ = lanes.ring;
    first_head_ = (lanes.tensor ? lanes.tensor->rank() * shape_.heads : 0) +
                  (ulysses_ ? ulysses_->rank() * share_of(shape_, ulysses_->ranks()).heads : 0);
  }

  at::Tensor new_cache(const TextShape& texts) const override {
    return at::empty({texts.texts, 2 * shape_.kv_heads, cached_positions(shape_.window, texts), shape_.head_size},
                     device_options(compute_type(precision())));
  }
  void lend_cache(const at::Tensor& cache, std::int64_t positions) override {
    cache_ = cache;
    cached_positions_ = positions;
  }

  at::Tensor compute(const at::Tensor& x, const BatchTensors& batch, Replay& replay) override {
    const at::Tensor rotation = rotation_for(batch);
    const auto drops = [&](DropoutSite site) {
      return dropout_of(dropout_.residual, batch, description().layer, site);
    };
    const Normalisation::Output first = attention_norm_(x);
    const std::int64_t rows = batch.rows();
    at::Tensor qkv = qkv_(first.normalised, rows, product_of(replay, rows));
    if (replay.keeps.has(Keep::projections) && !keeps_own_heads()) replay.qkv = qkv;
    if (head_norm_) qkv = (*head_norm_)(qkv);
    const at::Tensor attended = attend(std::move(qkv), batch, rotation, replay);
    if (replay.keeps.has(Keep::attention)) replay.attended = attended;
    const at::Tensor stream =
        attention_output_.add_linear(first.residual, attended, drops(DropoutSite::attention_output), replay.stream);
    if (replay.keeps.has(Keep::projections)) replay.stream = stream;
    return (*feed_forward_)(mlp_norm_(stream), batch, replay, drops(DropoutSite::mlp_output));
  }

 private:
  at::Tensor rotation_for(const BatchTensors& batch) const {
    if (!rotary_) return {};
    if (batch.text_slots.defined()) return rotary_->table_for(batch.text_length, cached_positions_);
    return rotary_->table_for(batch.length, std::max(batch.largest_position_end, batch.length));
  }
  /// Whether queries, keys and values are kept as ranks exchanged them: nothing reads them before that.
  bool keeps_own_heads() const { return ulysses_ && !head_norm_; }
  /// What the product of queries, keys and values gave, as far as it is known; where it is not read, its shape.
  at::Tensor product_of(const Replay& replay, std::int64_t rows) const {
    if (!replay.qkv.defined() || !keeps_own_heads()) return replay.qkv;
    return at::empty({rows, shape_.width()}, replay.qkv.options());
  }
  at::Tensor attend(at::Tensor qkv, const BatchTensors& batch, const at::Tensor& rotation, Replay& replay) const {
    if (batch.text_slots.defined()) {  // each rank along sequence axes has all rows
      invariant(cache_.defined(), "a pass over texts has a cache");
      return cached_attention(qkv, shape_, {{batch.segments, batch.longest_segment}, batch.text_slots, batch.positions},
                              rotation, cache_);
    }
    const bool apart = ring_ && ulysses_;  // then backward reads what attention gave besides what ranks made of it
    AttentionShape shape = shape_;
    if (ulysses_) {
      shape = share_of(shape_, ulysses_->ranks());
      qkv = to_own_heads(std::exchange(qkv, {}), shape_, *ulysses_, keeps_own_heads() ? replay.qkv : at::Tensor());
      if (replay.keeps.has(Keep::projections) && keeps_own_heads()) replay.qkv = qkv;
    }
    AttentionValues values{.y = apart      ? replay.own_attended
                                : ulysses_ ? at::Tensor()
                                           : replay.attended,
                           .log_sums = replay.log_sums,
                           .keeps_y = !ulysses_};
    const at::Tensor attended = attend(std::exchange(qkv, {}), shape, batch, rotation, values);
    if (replay.keeps.has(Keep::attention)) replay.log_sums = values.log_sums;
    if (replay.keeps.has(Keep::attention) && apart) replay.own_attended = values.y;
    return ulysses_ ? to_own_rows(attended, *ulysses_, replay.attended) : attended;
  }
  at::Tensor attend(const at::Tensor& qkv, const AttentionShape& shape, const BatchTensors& batch,
                    const at::Tensor& rotation, AttentionValues& values) const {
    const Dropout dropout = dropout_of(dropout_.attention, batch, description().layer, DropoutSite::attention);
    if (ring_) return ring_attention(qkv, shape, batch.ring, rotation, *ring_, dropout, first_head_, &values);
    return causal_attention(qkv, shape, {batch.segments, batch.longest_segment}, batch.attended_positions, rotation,
                            dropout, first_head_, &values);
  }
  std::vector<Parameter*> attention_inputs() const {
    if (Parameter* fused = find(Role::qkv)) return {fused};
    return {&get(Role::query), &get(Role::key), &get(Role::value)};
  }
  std::vector<Parameter*> attention_input_biases() const {
    if (find(Role::qkv)) return {find(Role::qkv_bias)};
    return {find(Role::query_bias), find(Role::key_bias), find(Role::value_bias)};
  }
  std::unique_ptr<FeedForward> make_feed_forward(const ModelConfig& config, double expert_capacity) const {
    if (!config.has_experts(description().layer)) return make_mlp(config);
    return std::make_unique<ExpertMlps>(config, get(Role::router), get(Role::expert_gate_up), get(Role::expert_down),
                                        config.has_shared_expert(description().layer) ? make_mlp(config) : nullptr,
                                        expert_capacity);
  }
  std::unique_ptr<Mlp> make_mlp(const ModelConfig& config) const {
    const Mlp::Layer down{{&get(Role::down)}, {find(Role::down_bias)}};
    if (!config.gated_mlp)
      return std::make_unique<Mlp>(config, Mlp::Layer{{&get(Role::up)}, {nullptr}}, find(Role::up_bias), down);
    const Mlp::Layer gate_up{{&get(Role::gate), &get(Role::up)}, {find(Role::gate_bias), find(Role::up_bias)}};
    return std::make_unique<Mlp>(config, gate_up, nullptr, down, find(Role::shared_expert_gate));
  }

  AttentionShape shape_;
  DropoutRates dropout_;
  std::int64_t first_head_ = 0;  // of this rank's, where ranks share the block
  RotaryTable* rotary_;
  at::Tensor cache_;  // lent: of texts
  std::int64_t cached_positions_ = 0;
  const BlockLane *ulysses_ = nullptr, *ring_ = nullptr;
  Normalisation attention_norm_;
  Linear qkv_, attention_output_;
  std::optional<HeadNorm> head_norm_;
  Normalisation mlp_norm_;
  std::unique_ptr<FeedForward> feed_forward_;
};

class Head : public HeadBlock {
 public:
  Head(const ModelConfig& config, const BlockDescription& description, Precision precision,
       std::vector<Parameter*> parameters)
      : HeadBlock(description, precision, std::move(parameters)),
        norm_(config.norm, config.norm_eps, get(Role::final_norm), find(Role::final_norm_bias)),
        weight_(&get(Role::head)) {}

  void share(const BlockLanes& lanes) override { lane_ = lanes.tensor; }

  at::Tensor compute(const at::Tensor& x, const BatchTensors& batch, Replay& replay) override {
    return loss_sum(norm_(x).normalised, *weight_, batch.labels, batch.loss, most_kept_logits_bytes, lane_,
                    &replay.correct);
  }

  at::Tensor logits(const at::Tensor& x) override {
    const at::NoGradGuard no_grad;
    return head_logits(norm_(cast(x, stream_type(precision()))).normalised, *weight_, lane_);
  }

 private:
  const BlockLane* lane_ = nullptr;
  Normalisation norm_;
  Parameter* weight_;
};

}  // namespace

std::unique_ptr<Block> make_embedding(const ModelConfig& config, const BlockDescription& description,
                                      Precision precision, std::vector<Parameter*> parameters) {
  return std::make_unique<Embedding>(config, description, precision, std::move(parameters));
}

std::unique_ptr<Block> make_decoder(const ModelConfig& config, const BlockDescription& description, Precision precision,
                                    std::vector<Parameter*> parameters, RotaryTable* rotary, double expert_capacity) {
  return std::make_unique<Decoder>(config, description, precision, std::move(parameters), rotary, expert_capacity);
}

std::unique_ptr<HeadBlock> make_head(const ModelConfig& config, const BlockDescription& description,
                                     Precision precision, std::vector<Parameter*> parameters) {
  return std::make_unique<Head>(config, description, precision, std::move(parameters));
}

}  // namespace lockstep
