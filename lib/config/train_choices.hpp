// The names of the values that enumeration options of train can have.
#pragma once

#include "config/train_config.hpp"
#include "options/option.hpp"

namespace lockstep {

ChoiceList<PrepareData> choices_of(PrepareData);
ChoiceList<Precision> choices_of(Precision);
ChoiceList<OptimizerName> choices_of(OptimizerName);
ChoiceList<StateType> choices_of(StateType);
ChoiceList<MuonAdjust> choices_of(MuonAdjust);
ChoiceList<Decay> choices_of(Decay);
ChoiceList<Unmatched> choices_of(Unmatched);
ChoiceList<DivergenceDetector> choices_of(DivergenceDetector);
ChoiceList<DivergenceLoss> choices_of(DivergenceLoss);
ChoiceList<DivergenceAction> choices_of(DivergenceAction);
ChoiceList<WeightsKept> choices_of(WeightsKept);
ChoiceList<ScheduleName> choices_of(ScheduleName);
ChoiceList<CooldownShape> choices_of(CooldownShape);
ChoiceList<WarmupFrom> choices_of(WarmupFrom);
ChoiceList<AccumulateGradients> choices_of(AccumulateGradients);
ChoiceList<MeshAxis> choices_of(MeshAxis);
ChoiceList<CpFsdpMode> choices_of(CpFsdpMode);
ChoiceList<StageSplitter> choices_of(StageSplitter);
ChoiceList<PipelineOrder> choices_of(PipelineOrder);
ChoiceList<LossName> choices_of(LossName);
ChoiceList<DeviceChoice> choices_of(DeviceChoice);
ChoiceList<RankTransport> choices_of(RankTransport);
ChoiceList<MatmulPrecision> choices_of(MatmulPrecision);
ChoiceList<CallbackName> choices_of(CallbackName);
ChoiceList<Offload> choices_of(Offload);
ChoiceList<RecomputeKeep> choices_of(RecomputeKeep);
ChoiceList<OnNonfinite> choices_of(OnNonfinite);
ChoiceList<ShuffleWhere> choices_of(ShuffleWhere);
ChoiceList<DummyTokens> choices_of(DummyTokens);
ChoiceList<VerifyData> choices_of(VerifyData);
ChoiceList<SamplePacking> choices_of(SamplePacking);
ChoiceList<LongDocuments> choices_of(LongDocuments);
ChoiceList<OnBusy> choices_of(OnBusy);
ChoiceList<Background> choices_of(Background);
ChoiceList<CheckpointStorage> choices_of(CheckpointStorage);
ChoiceList<BestMetric> choices_of(BestMetric);
ChoiceList<BestDirection> choices_of(BestDirection);
ChoiceList<Compared> choices_of(Compared);
ChoiceList<SavedComponent> choices_of(SavedComponent);
ChoiceList<OnDifference> choices_of(OnDifference);
ChoiceList<LogFormat> choices_of(LogFormat);
ChoiceList<RecordOutput> choices_of(RecordOutput);
ChoiceList<WandbMode> choices_of(WandbMode);
ChoiceList<MeasuredTensors> choices_of(MeasuredTensors);
ChoiceList<WatchedPhase> choices_of(WatchedPhase);

}  // namespace lockstep
