#include "config/train_choices.hpp"

#include "plugin/plugins.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// An open choice: what is built in, and behind it what plug-ins bring.
template <class E, class Entry>
ChoiceList<E> open_choice(ChoiceList<E> built_in, const std::vector<PluginEntry<Entry>>& brought) {
  ChoiceList<E> all = std::move(built_in);
  for (std::size_t i = 0; i < brought.size(); ++i) {
    const std::string_view name = brought[i].table->name;
    if (std::ranges::any_of(all, [&](const auto& choice) { return choice.second == name; }))
      fail(ExitCode::input, "{}: {} is a name that is built in", brought[i].plugin->file(), name);
    all.emplace_back(plugin_choice<E>(i), name);
  }
  return all;
}

}  // namespace

ChoiceList<PrepareData> choices_of(PrepareData) {
  return {{PrepareData::automatic, "auto"}, {PrepareData::skip, "skip"}};
}
ChoiceList<Precision> choices_of(Precision) {
  return {{Precision::fp32, "fp32"}, {Precision::fp64, "fp64"}, {Precision::bf16, "bf16"}, {Precision::fp16, "fp16"}};
}
ChoiceList<OptimizerName> choices_of(OptimizerName) {
  return open_choice<OptimizerName>({{OptimizerName::adamw, "adamw"},
                                     {OptimizerName::sgd, "sgd"},
                                     {OptimizerName::lion, "lion"},
                                     {OptimizerName::muon, "muon"},
                                     {OptimizerName::adafactor, "adafactor"}},
                                    Plugins::opened().optimizers());
}
ChoiceList<StateType> choices_of(StateType) { return {{StateType::weights, "weights"}, {StateType::bf16, "bf16"}}; }
ChoiceList<MuonAdjust> choices_of(MuonAdjust) {
  return {{MuonAdjust::original, "original"}, {MuonAdjust::match_rms_adamw, "match_rms_adamw"}};
}
ChoiceList<WeightsKept> choices_of(WeightsKept) {
  return {{WeightsKept::master, "master"}, {WeightsKept::bf16, "bf16"}};
}
ChoiceList<DivergenceDetector> choices_of(DivergenceDetector) {
  return {{DivergenceDetector::averages, "averages"}, {DivergenceDetector::windows, "windows"}};
}
ChoiceList<DivergenceLoss> choices_of(DivergenceLoss) {
  return {{DivergenceLoss::eval_loss, "eval_loss"}, {DivergenceLoss::loss, "loss"}};
}
ChoiceList<DivergenceAction> choices_of(DivergenceAction) {
  return {{DivergenceAction::stop, "stop"}, {DivergenceAction::abort, "abort"}};
}
ChoiceList<Unmatched> choices_of(Unmatched) { return {{Unmatched::refuse, "refuse"}, {Unmatched::warn, "warn"}}; }
ChoiceList<Decay> choices_of(Decay) { return {{Decay::matrices, "matrices"}, {Decay::all, "all"}}; }
ChoiceList<ScheduleName> choices_of(ScheduleName) {
  return open_choice<ScheduleName>({{ScheduleName::linear, "linear"},
                                    {ScheduleName::cosine, "cosine"},
                                    {ScheduleName::constant, "constant"},
                                    {ScheduleName::polynomial, "polynomial"},
                                    {ScheduleName::inverse_sqrt, "inverse_sqrt"},
                                    {ScheduleName::wsd, "wsd"},
                                    {ScheduleName::infinite, "infinite"}},
                                   Plugins::opened().schedules());
}
ChoiceList<CooldownShape> choices_of(CooldownShape) {
  return {{CooldownShape::linear, "linear"}, {CooldownShape::cosine, "cosine"}, {CooldownShape::sqrt, "sqrt"}};
}
ChoiceList<WarmupFrom> choices_of(WarmupFrom) { return {{WarmupFrom::one, "one"}, {WarmupFrom::zero, "zero"}}; }
ChoiceList<AccumulateGradients> choices_of(AccumulateGradients) {
  return {{AccumulateGradients::whole, "whole"},
          {AccumulateGradients::shards, "shards"},
          {AccumulateGradients::sums, "sums"}};
}
ChoiceList<MeshAxis> choices_of(MeshAxis) {
  return {{MeshAxis::pp, "pp"},     {MeshAxis::dp_replicate, "dp_replicate"}, {MeshAxis::dp_shard, "dp_shard"},
          {MeshAxis::ring, "ring"}, {MeshAxis::ulysses, "ulysses"},           {MeshAxis::tp, "tp"}};
}
ChoiceList<CpFsdpMode> choices_of(CpFsdpMode) {
  return {{CpFsdpMode::all, "all"},
          {CpFsdpMode::ulysses_only, "ulysses_only"},
          {CpFsdpMode::ring_only, "ring_only"},
          {CpFsdpMode::none, "none"}};
}
ChoiceList<StageSplitter> choices_of(StageSplitter) {
  return open_choice<StageSplitter>({{StageSplitter::balanced, "balanced"}}, Plugins::opened().splitters());
}
ChoiceList<PipelineOrder> choices_of(PipelineOrder) {
  return open_choice<PipelineOrder>({{PipelineOrder::gpipe, "gpipe"},
                                     {PipelineOrder::one_f_one_b, "1f1b"},
                                     {PipelineOrder::interleaved_1f1b, "interleaved_1f1b"},
                                     {PipelineOrder::interleaved_zero_bubble, "interleaved_zero_bubble"},
                                     {PipelineOrder::zbv, "zbv"}},
                                    Plugins::opened().pipeline_schedules());
}
ChoiceList<LossName> choices_of(LossName) {
  return open_choice<LossName>({{LossName::cross_entropy, "cross_entropy"}}, Plugins::opened().losses());
}
ChoiceList<Device> choices_of(Device) { return {{Device::cpu, "cpu"}, {Device::cuda, "cuda"}}; }
ChoiceList<CallbackName> choices_of(CallbackName) {
  return open_choice<CallbackName>({{CallbackName::sample, "sample"}}, Plugins::opened().callbacks());
}
ChoiceList<RecomputeKeep> choices_of(RecomputeKeep) {
  return {{RecomputeKeep::attention, "attention"},
          {RecomputeKeep::projections, "projections"},
          {RecomputeKeep::mlp, "mlp"},
          {RecomputeKeep::matmul, "matmul"},
          {RecomputeKeep::experts, "experts"}};
}
ChoiceList<Offload> choices_of(Offload) {
  return {{Offload::optimizer, "optimizer"}, {Offload::shards, "shards"}, {Offload::activations, "activations"}};
}
ChoiceList<OnNonfinite> choices_of(OnNonfinite) { return {{OnNonfinite::skip, "skip"}, {OnNonfinite::stop, "stop"}}; }
ChoiceList<ShuffleWhere> choices_of(ShuffleWhere) {
  return {{ShuffleWhere::mixture, "mixture"}, {ShuffleWhere::datasets, "datasets"}, {ShuffleWhere::both, "both"}};
}
ChoiceList<DummyTokens> choices_of(DummyTokens) {
  return {{DummyTokens::random, "random"}, {DummyTokens::constant, "constant"}};
}
ChoiceList<VerifyData> choices_of(VerifyData) {
  return {{VerifyData::use, "use"}, {VerifyData::start, "start"}, {VerifyData::off, "off"}};
}
ChoiceList<SamplePacking> choices_of(SamplePacking) {
  return open_choice<SamplePacking>({{SamplePacking::windows, "windows"},
                                     {SamplePacking::none, "none"},
                                     {SamplePacking::sequential, "sequential"},
                                     {SamplePacking::multipack, "multipack"},
                                     {SamplePacking::best_fit, "best_fit"}},
                                    Plugins::opened().packings());
}
ChoiceList<LongDocuments> choices_of(LongDocuments) {
  return {{LongDocuments::split, "split"}, {LongDocuments::truncate, "truncate"}, {LongDocuments::drop, "drop"}};
}
ChoiceList<Background> choices_of(Background) {
  return {{Background::automatic, "auto"}, {Background::always, "true"}, {Background::never, "false"}};
}
ChoiceList<OnBusy> choices_of(OnBusy) { return {{OnBusy::skip, "skip"}, {OnBusy::wait, "wait"}}; }
ChoiceList<CheckpointStorage> choices_of(CheckpointStorage) {
  return {{CheckpointStorage::shared, "shared"}, {CheckpointStorage::per_node, "per_node"}};
}
ChoiceList<BestMetric> choices_of(BestMetric) {
  return {{BestMetric::loss, "loss"}, {BestMetric::perplexity, "perplexity"}, {BestMetric::accuracy, "accuracy"}};
}
ChoiceList<BestDirection> choices_of(BestDirection) {
  return {{BestDirection::automatic, "auto"}, {BestDirection::lower, "lower"}, {BestDirection::higher, "higher"}};
}
ChoiceList<Compared> choices_of(Compared) {
  return {{Compared::none, "none"},
          {Compared::quick, "quick"},
          {Compared::rolling, "rolling"},
          {Compared::tensor, "tensor"},
          {Compared::full, "full"}};
}
ChoiceList<SavedComponent> choices_of(SavedComponent) {
  return {{SavedComponent::model, "model"},
          {SavedComponent::optimizer, "optimizer"},
          {SavedComponent::trainer, "trainer"},
          {SavedComponent::data, "data"},
          {SavedComponent::callbacks, "callbacks"}};
}
ChoiceList<OnDifference> choices_of(OnDifference) {
  return {{OnDifference::fail, "fail"}, {OnDifference::warn, "warn"}, {OnDifference::repair, "repair"}};
}
ChoiceList<LogFormat> choices_of(LogFormat) {
  return {{LogFormat::progress, "progress"}, {LogFormat::structured, "structured"}};
}

ChoiceList<WandbMode> choices_of(WandbMode) {
  return {{WandbMode::off, "off"}, {WandbMode::offline, "offline"}, {WandbMode::online, "online"}};
}

ChoiceList<MeasuredTensors> choices_of(MeasuredTensors) {
  return {{MeasuredTensors::weights, "weights"}, {MeasuredTensors::gradients, "gradients"}};
}

ChoiceList<WatchedPhase> choices_of(WatchedPhase) {
  return {{WatchedPhase::start_up, "start-up"},     {WatchedPhase::load, "load"},     {WatchedPhase::step, "step"},
          {WatchedPhase::evaluation, "evaluation"}, {WatchedPhase::sample, "sample"}, {WatchedPhase::save, "save"},
          {WatchedPhase::shutdown, "shutdown"}};
}

}  // namespace lockstep
