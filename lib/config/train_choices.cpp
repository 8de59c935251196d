#include "config/train_choices.hpp"

#include "plugin/plugins.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// An open choice: the values of Lockstep, then the values of plug-ins.
template <class E, class Entry>
ChoiceList<E> open_choice(ChoiceList<E> built_in, const std::vector<PluginEntry<Entry>>& brought) {
  ChoiceList<E> all = std::move(built_in);
  for (std::size_t i = 0; i < brought.size(); ++i) {
    const std::string_view name = brought[i].table->name;
    if (std::ranges::any_of(all, [&](const auto& choice) { return choice.name == name; }))
      fail(ExitCode::input, "{}: the name {} is reserved", brought[i].plugin->file(), name);
    all.push_back({plugin_choice<E>(i), name, "from a plug-in"});
  }
  return all;
}

}  // namespace

ChoiceList<PrepareData> choices_of(PrepareData) {
  return {{PrepareData::automatic, "auto", "tokenize text on all ranks, unless that was done before"},
          {PrepareData::skip, "skip", "use prepared text only; without it the run ends with code 3"}};
}
ChoiceList<Precision> choices_of(Precision) {
  return {{Precision::fp32, "fp32", "single precision"},
          {Precision::fp64, "fp64", "double precision"},
          {Precision::bf16, "bf16", "bfloat16"},
          {Precision::fp16, "fp16", "half precision"}};
}
ChoiceList<OptimizerName> choices_of(OptimizerName) {
  return open_choice<OptimizerName>(
      {{OptimizerName::adamw, "adamw", "Adam with decoupled weight decay"},
       {OptimizerName::sgd, "sgd", "stochastic gradient descent with momentum"},
       {OptimizerName::lion, "lion", "sign of the averaged gradient"},
       {OptimizerName::muon, "muon", "orthogonalised momentum for hidden matrices, adamw for other tensors"},
       {OptimizerName::adafactor, "adafactor", "second moments of rows and columns only"}},
      Plugins::opened().optimizers());
}
ChoiceList<StateType> choices_of(StateType) {
  return {{StateType::weights, "weights", "the type of the weights"},
          {StateType::bf16, "bf16", "bfloat16, rounded to nearest at each step"}};
}
ChoiceList<MuonAdjust> choices_of(MuonAdjust) {
  return {{MuonAdjust::original, "original", "sqrt(max(1, out/in)) of a matrix"},
          {MuonAdjust::match_rms_adamw, "match_rms_adamw", "0.2 sqrt(max(out, in)), for lr and weight_decay of adamw"}};
}
ChoiceList<WeightsKept> choices_of(WeightsKept) {
  return {{WeightsKept::master, "master", "fp32, or fp64 with precision.dtype fp64"},
          {WeightsKept::bf16, "bf16", "bfloat16, and no other copy"}};
}
ChoiceList<DivergenceDetector> choices_of(DivergenceDetector) {
  return {
      {DivergenceDetector::averages, "averages", "moving averages with rates 1/divergence.few and 1/divergence.many"},
      {DivergenceDetector::windows, "windows", "means of the last divergence.few and divergence.many losses"}};
}
ChoiceList<DivergenceLoss> choices_of(DivergenceLoss) {
  return {{DivergenceLoss::eval_loss, "eval_loss", "loss of each evaluation"},
          {DivergenceLoss::loss, "loss", "loss of each step"}};
}
ChoiceList<DivergenceAction> choices_of(DivergenceAction) {
  return {{DivergenceAction::stop, "stop", "save a checkpoint, then end"},
          {DivergenceAction::abort, "abort", "end without a save"}};
}
ChoiceList<Unmatched> choices_of(Unmatched) {
  return {{Unmatched::refuse, "refuse", "end before the first step"}, {Unmatched::warn, "warn", "warn and train"}};
}
ChoiceList<Decay> choices_of(Decay) {
  return {{Decay::matrices, "matrices", "tensors of two dimensions or more: no norms, no biases"},
          {Decay::all, "all", "all tensors"}};
}
ChoiceList<ScheduleName> choices_of(ScheduleName) {
  return open_choice<ScheduleName>(
      {{ScheduleName::linear, "linear", "fall as a line"},
       {ScheduleName::cosine, "cosine", "fall as a half cosine"},
       {ScheduleName::constant, "constant", "do not fall"},
       {ScheduleName::polynomial, "polynomial", "fall as a power of the part of the decay that is left"},
       {ScheduleName::inverse_sqrt, "inverse_sqrt", "fall as the inverse root of the step"},
       {ScheduleName::wsd, "wsd", "stay constant until the cooldown"},
       {ScheduleName::infinite, "infinite", "half cosine to schedule.constant_lr, constant, half cosine as cooldown"}},
      Plugins::opened().schedules());
}
ChoiceList<CooldownShape> choices_of(CooldownShape) {
  return {{CooldownShape::linear, "linear", "a line"},
          {CooldownShape::cosine, "cosine", "a half cosine"},
          {CooldownShape::sqrt, "sqrt", "one minus the root of the part that is over"}};
}
ChoiceList<WarmupFrom> choices_of(WarmupFrom) {
  return {{WarmupFrom::one, "one", "the last step of warm-up has optimizer.lr"},
          {WarmupFrom::zero, "zero", "the first step has schedule.start_lr, as in transformers"}};
}
ChoiceList<AccumulateGradients> choices_of(AccumulateGradients) {
  return {{AccumulateGradients::whole, "whole", "keep the whole gradient, and reduce it with the last micro-batch"},
          {AccumulateGradients::shards, "shards", "reduce-scatter over dp_shard after each, the rest with the last"},
          {AccumulateGradients::sums, "sums", "reduce over all ranks after each micro-batch"}};
}
ChoiceList<MeshAxis> choices_of(MeshAxis) {
  return {{MeshAxis::pp, "pp", "pipeline parallel"},
          {MeshAxis::dp_replicate, "dp_replicate", "data-parallel replicas"},
          {MeshAxis::dp_shard, "dp_shard", "fully sharded data parallel"},
          {MeshAxis::ring, "ring", "context parallel by ring attention"},
          {MeshAxis::ulysses, "ulysses", "context parallel by all-to-all over heads"},
          {MeshAxis::tp, "tp", "tensor parallel"}};
}
ChoiceList<CpFsdpMode> choices_of(CpFsdpMode) {
  return {{CpFsdpMode::all, "all", "ring and ulysses"},
          {CpFsdpMode::ulysses_only, "ulysses_only", "ulysses"},
          {CpFsdpMode::ring_only, "ring_only", "ring"},
          {CpFsdpMode::none, "none", "neither of the two"}};
}
ChoiceList<StageSplitter> choices_of(StageSplitter) {
  return open_choice<StageSplitter>({{StageSplitter::balanced, "balanced", "stages of equal cost"}},
                                    Plugins::opened().splitters());
}
ChoiceList<PipelineOrder> choices_of(PipelineOrder) {
  return open_choice<PipelineOrder>(
      {{PipelineOrder::gpipe, "gpipe", "all forwards, then all backwards"},
       {PipelineOrder::one_f_one_b, "1f1b", "forward and backward in turn"},
       {PipelineOrder::interleaved_1f1b, "interleaved_1f1b", "1f1b with several (virtual) stages per rank"},
       {PipelineOrder::interleaved_zero_bubble, "interleaved_zero_bubble",
        "interleaved_1f1b with weight gradients in idle time"},
       {PipelineOrder::zbv, "zbv", "zero bubble with two stages per rank in a V"}},
      Plugins::opened().pipeline_schedules());
}
ChoiceList<LossName> choices_of(LossName) {
  return open_choice<LossName>({{LossName::cross_entropy, "cross_entropy", "cross entropy of the next token"}},
                               Plugins::opened().losses());
}
ChoiceList<DeviceChoice> choices_of(DeviceChoice) {
  return {{DeviceChoice::automatic, "auto", "a GPU if every rank has one, else the processor"},
          {DeviceChoice::cpu, "cpu", "the processor"},
          {DeviceChoice::cuda, "cuda", "a GPU for each rank, through the plug-in lockstep-cuda.so"}};
}
ChoiceList<RankTransport> choices_of(RankTransport) {
  return {
      {RankTransport::automatic, "auto", "as nccl if each rank has a GPU of its own and NCCL is there, else as host"},
      {RankTransport::nccl, "nccl", "NCCL, from GPU to GPU"},
      {RankTransport::host, "host", "MPI, through host memory; ranks may share a GPU"}};
}
ChoiceList<MatmulPrecision> choices_of(MatmulPrecision) {
  return {{MatmulPrecision::fp32, "fp32", "fp32"},
          {MatmulPrecision::tf32, "tf32", "TF32 where the GPU has it: 10 bits of mantissa, sums in fp32"}};
}
ChoiceList<CallbackName> choices_of(CallbackName) {
  return open_choice<CallbackName>(
      {{CallbackName::sample, "sample", "generate text from sample.prompts at evaluations and at the end"}},
      Plugins::opened().callbacks());
}
ChoiceList<RecomputeKeep> choices_of(RecomputeKeep) {
  return {{RecomputeKeep::attention, "attention", "output and softmax sums of attention"},
          {RecomputeKeep::projections, "projections", "the products before and after attention"},
          {RecomputeKeep::mlp, "mlp", "input of the activation, and outputs of experts"},
          {RecomputeKeep::matmul, "matmul", "projections, and mlp without experts"},
          {RecomputeKeep::experts, "experts", "outputs of the products of experts"}};
}
ChoiceList<Offload> choices_of(Offload) {
  return {{Offload::optimizer, "optimizer", "optimizer state, fetched for the update of each unit"},
          {Offload::shards, "shards", "also the sharded weights and gradients"},
          {Offload::activations, "activations", "activations that are kept between forward and backward"}};
}
ChoiceList<OnNonfinite> choices_of(OnNonfinite) {
  return {{OnNonfinite::skip, "skip", "continue with the next samples; code 6 at the fourth such step in a row"},
          {OnNonfinite::stop, "stop", "end with code 6 at the first such step"}};
}
ChoiceList<ShuffleWhere> choices_of(ShuffleWhere) {
  return {{ShuffleWhere::mixture, "mixture", "all samples together"},
          {ShuffleWhere::datasets, "datasets", "within each dataset; the mixture is exact at every step"},
          {ShuffleWhere::both, "both", "within each dataset, then all together"}};
}
ChoiceList<DummyTokens> choices_of(DummyTokens) {
  return {{DummyTokens::random, "random", "ids of the model's vocabulary, drawn by data.seed"},
          {DummyTokens::constant, "constant", "the id 0"}};
}
ChoiceList<VerifyData> choices_of(VerifyData) {
  return {{VerifyData::use, "use", "each shard in the background once it is read, before the next save"},
          {VerifyData::start, "start", "all shards before the first step"},
          {VerifyData::off, "off", "no shard"}};
}
ChoiceList<SamplePacking> choices_of(SamplePacking) {
  return open_choice<SamplePacking>(
      {{SamplePacking::windows, "windows", "cut the stream of all documents into samples"},
       {SamplePacking::none, "none", "one document a sample, padded to the longest of the step"},
       {SamplePacking::sequential, "sequential", "fill rows with whole documents in their order"},
       {SamplePacking::multipack, "multipack", "fill rows by first fit, longest document first"},
       {SamplePacking::best_fit, "best_fit", "fill rows by best fit, longest document first"}},
      Plugins::opened().packings());
}
ChoiceList<LongDocuments> choices_of(LongDocuments) {
  return {{LongDocuments::split, "split", "make several parts"},
          {LongDocuments::truncate, "truncate", "keep the beginning"},
          {LongDocuments::drop, "drop", "leave them out"}};
}
ChoiceList<Background> choices_of(Background) {
  return {{Background::automatic, "auto", "where memory has room for the copy"},
          {Background::always, "true", "always"},
          {Background::never, "false", "never: training waits for the save"}};
}
ChoiceList<OnBusy> choices_of(OnBusy) {
  return {{OnBusy::skip, "skip", "skip the save that is due"}, {OnBusy::wait, "wait", "wait for the running save"}};
}
ChoiceList<CheckpointStorage> choices_of(CheckpointStorage) {
  return {{CheckpointStorage::shared, "shared", "a file system that all ranks see"},
          {CheckpointStorage::per_node, "per_node", "each node has the files that its ranks write"}};
}
ChoiceList<BestMetric> choices_of(BestMetric) {
  return {{BestMetric::loss, "loss", "cross entropy"},
          {BestMetric::perplexity, "perplexity", "exponential of the cross entropy"},
          {BestMetric::accuracy, "accuracy", "share of tokens that are predicted"}};
}
ChoiceList<BestDirection> choices_of(BestDirection) {
  return {{BestDirection::automatic, "auto", "higher accuracy, lower values of other metrics"},
          {BestDirection::lower, "lower", "lower values"},
          {BestDirection::higher, "higher", "higher values"}};
}
ChoiceList<Compared> choices_of(Compared) {
  return {{Compared::none, "none", "no comparison"},
          {Compared::quick, "quick", "the ends of each tensor"},
          {Compared::rolling, "rolling", "a share of each tensor in turn"},
          {Compared::tensor, "tensor", "fingerprints of all tensors"},
          {Compared::full, "full", "fingerprints and hashes of all tensors"}};
}
ChoiceList<SavedComponent> choices_of(SavedComponent) {
  return {{SavedComponent::model, "model", "weights"},
          {SavedComponent::optimizer, "optimizer", "moments"},
          {SavedComponent::trainer, "trainer", "steps, losses and loss scale"},
          {SavedComponent::data, "data", "position in the data"},
          {SavedComponent::callbacks, "callbacks", "state of callbacks"}};
}
ChoiceList<OnDifference> choices_of(OnDifference) {
  return {{OnDifference::fail, "fail", "end the run with code 1"},
          {OnDifference::warn, "warn", "save the values of the first rank"},
          {OnDifference::repair, "repair", "majority vote of three or more replicas; fail if there is no majority"}};
}
ChoiceList<LogFormat> choices_of(LogFormat) {
  return {{LogFormat::progress, "progress", "text for people"},
          {LogFormat::structured, "structured", "one JSON object a line, with the numbers of each step record"}};
}

ChoiceList<RecordOutput> choices_of(RecordOutput) {
  return {{RecordOutput::standard_output, "stdout", "records.jsonl and, unless it is a terminal, standard output"},
          {RecordOutput::file, "file", "records.jsonl only; the log has a line for each step record"}};
}

ChoiceList<WandbMode> choices_of(WandbMode) {
  return {{WandbMode::off, "off", "no files"},
          {WandbMode::offline, "offline", "files for wandb sync"},
          {WandbMode::online, "online", "refused"}};
}

ChoiceList<MeasuredTensors> choices_of(MeasuredTensors) {
  return {{MeasuredTensors::weights, "weights", "weights"}, {MeasuredTensors::gradients, "gradients", "gradients"}};
}

ChoiceList<WatchedPhase> choices_of(WatchedPhase) {
  return {{WatchedPhase::start_up, "start-up", "the start of the job"},
          {WatchedPhase::load, "load", "loading a checkpoint"},
          {WatchedPhase::step, "step", "data, forward, backward, reduction, update and callbacks"},
          {WatchedPhase::evaluation, "evaluation", "an evaluation"},
          {WatchedPhase::sample, "sample", "generating text"},
          {WatchedPhase::save, "save", "each part of a save"},
          {WatchedPhase::shutdown, "shutdown", "the end of the job"}};
}

}  // namespace lockstep
