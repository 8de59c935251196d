// Declarations of the options of train, one function for each section. The structs: config/train_config.hpp.
#pragma once

#include "config/train_config.hpp"

namespace lockstep {

class Declaration;

void describe(Declaration& visit, ModelOptions& options);
void describe(Declaration& visit, DataOptions& options);
void describe(Declaration& visit, ParallelOptions& options);
void describe(Declaration& visit, PostLocalSgdOptions& options);
void describe(Declaration& visit, PrecisionOptions& options);
void describe(Declaration& visit, OptimizerOptions& options);
void describe(Declaration& visit, ScheduleOptions& options);
void describe(Declaration& visit, TrainOptions& options);
void describe(Declaration& visit, EvalOptions& options);
void describe(Declaration& visit, DivergenceOptions& options);
void describe(Declaration& visit, SampleOptions& options);
void describe(Declaration& visit, CheckpointOptions& options);
void describe(Declaration& visit, LogOptions& options);

}  // namespace lockstep
