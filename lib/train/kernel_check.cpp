#include "train/kernel_check.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "plugin/plugins.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>

namespace lockstep {

namespace {

/// The table of the kernels for a compute type.
std::string_view table_of(Precision precision) {
  switch (precision) {
    case Precision::fp32: return "fp32";
    case Precision::fp64: return "fp64";
    case Precision::bf16: return "bf16";
    case Precision::fp16: return "fp16";
  }
  fail(ExitCode::bug, "unknown Precision {}", static_cast<int>(precision));
}

/// Collects the needs of a run.
class KernelNeeds {
 public:
  KernelNeeds(const TrainConfig& config, const ModelConfig& model, const Mesh& mesh)
      : config_(config),
        model_(model),
        mesh_(mesh),
        compute_(table_of(config.precision.dtype)),
        sums_(config.precision.dtype == Precision::fp64 ? "fp64" : "fp32"),
        trains_(!reads_weights_alone(config)) {}
  std::vector<KernelNeed> all() {
    add_blocks();
    if (model_.experts.count > 0) add_experts();
    add_loss();
    if (trains_) add_updates();
    return needs_;
  }

 private:
  void add(std::string_view part, std::string_view table, std::initializer_list<std::string_view> names) {
    auto found = std::ranges::find(needs_, part, &KernelNeed::part);
    if (found == needs_.end()) found = needs_.insert(needs_.end(), {.part = std::string(part), .kernels = {}});
    for (const std::string_view name : names) found->kernels.push_back(fmt::format("{} {}", table, name));
  }
  /// A function of the compute type and its derivative.
  void add_function(std::string_view part, std::string_view forward, std::string_view backward) {
    add(part, compute_, {forward});
    if (trains_) add(part, compute_, {backward});
  }
  bool divides(const AxisName& name) const {
    const Axis* const axis = find_axis(mesh_, name);
    return axis != nullptr && axis->size > 1;
  }
  bool is_short() const { return compute_ != sums_; }
  bool has_dense_layers() const { return model_.expert_layers(model_.layers) < model_.layers; }

  void add_blocks() {
    add("embeddings", compute_, {"embedding_forward"});
    if (trains_) add("embeddings", sums_, {"embedding_backward"});
    if (divides("tp")) add("embeddings divided by parallel.tp", "fp32", {"indices_of_part"});
    add("linear layers", compute_, {"gemm", "gemm_rounded", "gemm_add"});
    if (trains_ && is_short()) add("linear layers", compute_, {"round_to"});
    if (trains_) add_biases();
    if (model_.norm == Norm::layer_norm)
      add_function("LayerNorm", "layer_norm_forward", "layer_norm_backward");
    else
      add_function("RMSNorm", "rms_norm_forward", "rms_norm_backward");
    if (model_.query_key_norm) add_function("norms of query and key heads", "head_norm_forward", "head_norm_backward");
    if (model_.gated_mlp)
      add_function("gated MLPs", "gated_forward", "gated_backward");
    else if (has_dense_layers())
      add_function("MLPs", "activation_forward", "activation_backward");
    if (divides("ring")) {
      add("parallel.ring", compute_, {"ring_attention_forward", "ring_attention_result"});
      if (trains_)
        add("parallel.ring", compute_,
            {"ring_attention_products", "ring_attention_backward", "ring_attention_gradient"});
    } else {
      add_function("attention", "attention_forward", "attention_backward");
    }
    if (samples_text(config_)) add("generated texts", compute_, {"cached_attention"});
    if (!trains_) return;
    if (model_.dropout.embedding > 0) add("dropout", sums_, {"dropout"});
    if (model_.dropout.residual > 0) {
      add("dropout", compute_, {"dropout_add", "dropout"});
      if (is_short()) add("dropout", sums_, {"dropout"});
    }
  }

  void add_biases() {
    // A bias that adds to the residual gets the residual's gradient, unless dropout lies between them.
    const bool adds = model_.output_bias || model_.mlp_bias, drops = model_.dropout.residual > 0;
    if (model_.qkv_bias || model_.mlp_bias || (adds && drops)) add("biases", compute_, {"column_sums"});
    if (adds && !drops) add("biases", sums_, {"column_sums"});
  }

  void add_experts() {
    add("mixture of experts", compute_,
        {"route", "group_by_expert", "dispatch_rows", "combine_rows", "grouped_gemm_rounded"});
    if (!trains_) return;
    add("mixture of experts", compute_,
        {"route_backward", "count_choices", "dispatch_backward", "combine_backward", "grouped_weight_gemm"});
    if (model_.experts.aux_coefficient > 0) add("the auxiliary loss of experts", sums_, {"sum_by_sample", "aux_loss"});
  }

  void add_loss() {
    add("the loss", compute_, {"gemm", "sum_in_order"});
    add("the loss", "fp64", {"add_value"});
    if (trains_) add("the loss", compute_, {"gemm_scaled"});
    if (divides("tp")) {
      add("the loss divided by parallel.tp", compute_, {"row_statistics", "combine_statistics"});
      if (trains_) add("the loss divided by parallel.tp", compute_, {"cross_entropy_derivative"});
    } else {
      if (trains_ && !plugin_index(config_.train.loss)) add("the loss", compute_, {"cross_entropy"});
      add("the loss", compute_, {"cross_entropy_loss"});
    }
  }

  void add_updates() {
    add("the gradient norm", sums_, {"add_square_sum"});
    for (const MeasuredTensors tensors : config_.log.statistics)
      add("log.statistics",
          tensors == MeasuredTensors::weights && config_.precision.weights == WeightsKept::bf16 ? compute_ : sums_,
          {"add_statistics"});
    add_rule(config_.optimizer);
    for (const auto& [name, group] : config_.optimizer.groups) add_rule(changed(config_.optimizer, group));
  }

  void add_rule(const UpdateRule& rule) {
    if (plugin_index(rule.name)) return;  // it updates copies on the host
    const bool keeps_bf16 = rule.state_dtype == StateType::bf16 && sums_ == "fp32";
    const auto with_state = [&](std::string_view name, std::string_view of_bf16) {
      return keeps_bf16 ? of_bf16 : name;
    };
    switch (rule.name) {
      case OptimizerName::adamw: return add("optimizer.name adamw", sums_, {with_state("adamw", "adamw_short_state")});
      case OptimizerName::lion: return add("optimizer.name lion", sums_, {with_state("lion", "lion_short_state")});
      case OptimizerName::sgd: return add("optimizer.name sgd", sums_, {"sgd"});
      case OptimizerName::muon:  // and AdamW for tensors that are not hidden matrices
        return add("optimizer.name muon", sums_,
                   {with_state("muon_lead", "muon_lead_short_state"), "orthogonalise", "muon_follow",
                    with_state("adamw", "adamw_short_state")});
      case OptimizerName::adafactor:
        return add("optimizer.name adafactor", sums_, {"adafactor_sums", "adafactor_means", "adafactor_follow"});
    }
  }

  const TrainConfig& config_;
  const ModelConfig& model_;
  const Mesh& mesh_;
  std::string_view compute_, sums_;  // names of tables
  bool trains_;
  std::vector<KernelNeed> needs_;
};

}  // namespace

std::vector<KernelNeed> kernel_needs(const TrainConfig& config, const ModelConfig& model, const Mesh& mesh) {
  std::vector<KernelNeed> needs = KernelNeeds(config, model, mesh).all();
  for (KernelNeed& need : needs) {
    std::ranges::sort(need.kernels);
    const auto repeated = std::ranges::unique(need.kernels);
    need.kernels.erase(repeated.begin(), repeated.end());
  }
  return needs;
}

void require_kernels(const std::vector<KernelNeed>& needs, const std::set<std::string>& absent,
                     std::string_view device) {
  std::vector<std::string> lacking;
  for (const KernelNeed& need : needs) {
    std::vector<std::string> missing;
    std::ranges::copy_if(need.kernels, std::back_inserter(missing),
                         [&](const std::string& kernel) { return absent.contains(kernel); });
    if (!missing.empty()) lacking.push_back(fmt::format("{} ({})", need.part, join(missing, ", ")));
  }
  if (!lacking.empty())
    throw Error(
        ExitCode::usage,
        fmt::format("{} does not run this configuration: it has no kernels for {}", device, join(lacking, ", ")),
        "lockstep-devices(7) lists what runs on a device; train.device cpu runs everything");
}

}  // namespace lockstep
