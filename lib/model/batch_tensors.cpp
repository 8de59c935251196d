#include "model/batch_tensors.hpp"

#include "base/error.hpp"
#include "base/rounding.hpp"
#include "device/device.hpp"
#include "tensor/arena.hpp"
#include "tensor/kernels/dropout_kernel.hpp"
#include "tensor/unit.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

template <class T>
at::Tensor tensor_of(const std::vector<T>& values, at::ScalarType type) {
  const at::Tensor tensor =
      at::empty({static_cast<std::int64_t>(values.size())}, at::TensorOptions().dtype(type).device(at::kCPU));
  std::copy(values.begin(), values.end(), static_cast<T*>(tensor.mutable_data_ptr()));
  return tensor;
}

/// By row of a rank; padding gets `otherwise`.
template <class T>
std::vector<T> of_rows(const std::vector<T>& values, const std::vector<std::int64_t>& rows, T otherwise) {
  std::vector<T> own;
  for (const std::int64_t row : rows) own.push_back(row < 0 ? otherwise : values[static_cast<std::size_t>(row)]);
  return own;
}

void check_range(const std::vector<std::int32_t>& values, std::int64_t limit, std::string_view what,
                 std::string_view hint) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0 && values[i] < limit) continue;
    throw Error(
        ExitCode::input,
        fmt::format("{} {} at index {} of the batch is outside the model's range of {}", what, values[i], i, limit),
        std::string(hint));
  }
}

/// Of all rows of a batch.
std::vector<Place> places_of(const Batch& batch) {
  invariant(std::ssize(batch.numbers) == batch.samples, "with dropout, each sample has a number");
  std::vector<Place> places;
  for (const std::int64_t number : batch.numbers)
    for (std::int64_t index = 0; index < batch.length; ++index)
      places.push_back(number < 0 ? -1 : number << 32 | index);
  return places;
}

/// By rank of the ring.
RingSegments ring_segments(const Batch& batch, const SequenceRanks& ranks) {
  std::vector<std::int64_t> parts;
  std::vector<std::int32_t> positions;
  for (int ring = 0; ring < ranks.ring; ++ring) {
    for (const SequencePart& part : parts_of(ranks, ring, batch.documents))
      parts.insert(parts.end(), {part.row, part.length, part.first});
    const std::vector<std::int32_t> own = of_rows(batch.positions, attended_rows(ranks, ring, batch.documents), 0);
    positions.insert(positions.end(), own.begin(), own.end());
  }
  return {tensor_of(parts, at::kLong).view({ranks.ring, -1, 2, 3}),
          tensor_of(positions, at::kInt).view({ranks.ring, -1})};
}

/// Of all rows of a batch.
std::vector<std::int32_t> row_samples(const Batch& batch) {
  std::vector<std::int32_t> samples;
  for (std::int32_t sample = 0; sample < batch.samples; ++sample)
    samples.insert(samples.end(), static_cast<std::size_t>(batch.length),
                   !batch.numbers.empty() && batch.numbers[static_cast<std::size_t>(sample)] < 0 ? -1 : sample);
  return samples;
}

/// Moves tensors of the CPU to this process's device, side by side in one copy.
void move_to_device(BatchTensors& batch) {
  Device& device = this_device();
  if (device.properties().is_host) return;
  constexpr std::int64_t alignment = 64;
  std::vector<at::Tensor*> moved;
  std::vector<std::int64_t> places;
  std::int64_t bytes = 0;
  for (at::Tensor* const tensor :
       {&batch.tokens, &batch.labels, &batch.positions, &batch.segments, &batch.attended_positions, &batch.ring.parts,
        &batch.ring.positions, &batch.places, &batch.attended_places, &batch.row_samples, &batch.text_slots}) {
    if (!tensor->defined()) continue;
    moved.push_back(tensor);
    places.push_back(bytes);
    bytes += rounded_up(static_cast<std::int64_t>(tensor->nbytes()), alignment);
  }
  batch.pinned = pinned_memory(static_cast<std::size_t>(bytes));
  const at::Tensor whole = at::empty({bytes}, device_options(at::kByte));
  for (std::size_t i = 0; i < moved.size(); ++i) {
    at::Tensor& tensor = *moved[i];
    const std::span<const std::byte> own = bytes_of(tensor);
    std::ranges::copy(own, batch.pinned.get() + places[i]);
    tensor = whole.narrow(0, places[i], std::ssize(own)).view(tensor.scalar_type()).view(tensor.sizes());
  }
  const RegionCopy copy{{Arena::host, batch.pinned.get(), static_cast<std::size_t>(bytes)}, region_of(whole)};
  device.copy({&copy, 1}, DeviceQueue::compute);
}

/// As to_tensors, in memory of the CPU.
BatchTensors on_host(const Batch& batch, const ModelConfig& config, const SequencePlace& place,
                     const std::optional<DropoutDraw>& draw) {
  const auto count = static_cast<std::size_t>(batch.samples * batch.length);
  invariant(batch.tokens.size() == count && batch.labels.size() == count && batch.positions.size() == count,
            "a batch has B·T tokens, labels and positions");
  invariant(!batch.documents.empty() && batch.documents.front() == 0 &&
                batch.documents.back() == batch.samples * batch.length &&
                std::is_sorted(batch.documents.begin(), batch.documents.end()),
            "a batch's segments start at 0, ascend and end at B·T");
  check_range(batch.tokens, config.vocabulary, "token", "the dataset was made with another tokenizer than the model's");
  for (const std::int32_t label : batch.labels) {
    if (label != ignored_label && (label < 0 || label >= config.vocabulary))
      fail(ExitCode::input, "label {} is outside the vocabulary of {}", label, config.vocabulary);
  }
  check_range(batch.positions, config.positions == Positions::learned ? config.max_positions : INT32_MAX, "position",
              "use a data.sequence_length of at most the model's max_position_embeddings");
  BatchTensors tensors;
  tensors.samples = batch.samples;
  tensors.length = batch.length;
  if (!batch.positions.empty()) tensors.largest_position_end = std::ranges::max(batch.positions) + 1;
  const std::vector<std::int64_t> rows = rows_of(place, batch.documents);
  const std::vector<std::int32_t> labels = of_rows(batch.labels, rows, ignored_label);
  tensors.tokens = tensor_of(of_rows(batch.tokens, rows, 0), at::kInt);
  tensors.labels = tensor_of(labels, at::kInt);
  tensors.positions = tensor_of(of_rows(batch.positions, rows, 0), at::kInt);
  tensors.valid_tokens = std::ranges::count_if(labels, [](std::int32_t label) { return label != ignored_label; });
  const std::vector<std::int64_t> attended = attended_rows(place.ranks, place.ring, batch.documents);
  if (place.ranks.ring > 1) {
    tensors.ring = ring_segments(batch, place.ranks);
  } else {
    std::vector<std::int64_t> segments = batch.documents;
    if (attended.size() > count) segments.push_back(std::ssize(attended));
    for (std::size_t s = 0; s + 1 < segments.size(); ++s)
      tensors.longest_segment = std::max(tensors.longest_segment, segments[s + 1] - segments[s]);
    tensors.segments = tensor_of(segments, at::kLong);
    tensors.attended_positions = tensor_of(of_rows(batch.positions, attended, 0), at::kInt);
  }
  if (draw && config.dropout.any()) {
    const std::vector<Place> places = places_of(batch);
    tensors.places = tensor_of(of_rows(places, rows, Place{-1}), at::kLong);
    tensors.attended_places = tensor_of(of_rows(places, attended, Place{-1}), at::kLong);
    tensors.draw = *draw;
  }
  if (config.experts.count > 0) {
    const std::vector<std::int32_t> samples = of_rows(row_samples(batch), rows, std::int32_t{-1});
    tensors.row_samples = tensor_of(samples, at::kInt);
    tensors.routed_before.assign(1, 0);
    for (const std::int32_t sample : samples)
      tensors.routed_before.push_back(tensors.routed_before.back() + (sample < 0 ? 0 : 1));
  }
  tensors.counts_choices = draw && config.experts.count > 0;
  return tensors;
}

}  // namespace

BatchTensors to_tensors(const Batch& batch, const ModelConfig& config, const SequencePlace& place,
                        const std::optional<DropoutDraw>& draw) {
  BatchTensors tensors = on_host(batch, config, place, draw);
  move_to_device(tensors);
  return tensors;
}

BatchTensors to_tensors(const TextPass& pass, const ModelConfig& config) {
  BatchTensors tensors = on_host(pass.batch, config, {}, {});
  tensors.text_slots = tensor_of(pass.slots, at::kInt);
  tensors.text_length = pass.length;
  move_to_device(tensors);
  return tensors;
}

}  // namespace lockstep
