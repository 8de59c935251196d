#include "report/final_metrics.hpp"

#include "base/json.hpp"

#include <algorithm>
#include <optional>

namespace lockstep {

namespace {

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

}  // namespace

Json final_metrics(const SummaryRecord& record) {
  const auto& peaks =
      record.peak_device_memory_bytes.empty() ? record.peak_memory_bytes : record.peak_device_memory_bytes;
  return {{"epoch", record.epoch},
          {"step", record.step},
          {"train_runtime", record.wall_s},
          {"train_samples", record.samples},
          {"train_samples_per_second", number_or_null(record.samples_per_s)},
          {"train_steps_per_second", number_or_null(record.steps_per_s)},
          {"train_loss", number_or_null(record.mean_loss)},
          {"eval_loss", number_or_null(record.eval_loss)},
          {"effective_batch_size", record.global_batch},
          {"total_tokens", record.tokens},
          {"tokens_per_second", number_or_null(record.tokens_per_s)},
          {"total_flos", number_or_null(record.flops)},
          {"flops_per_second", number_or_null(record.flops_per_s)},
          {"mfu", number_or_null(record.mfu)},
          {"peak_mem_allocated", peaks.empty() ? Json(nullptr) : Json(*std::ranges::max_element(peaks))}};
}

}  // namespace lockstep
