#include "trial/kernel_call.hpp"

#include "base/error.hpp"
#include "device/device.hpp"
#include "tensor/arena.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace lockstep::trial {

Draw normal(double deviation, double mean) {
  return [=](const RandomStream& stream, std::uint64_t i) { return mean + deviation * stream.normal(i); };
}

Draw uniform(double least, double below) {
  return [=](const RandomStream& stream, std::uint64_t i) { return least + (below - least) * stream.uniform(i); };
}

Draw constant(double value) {
  return [=](const RandomStream&, std::uint64_t) { return value; };
}

const Argument& TrialArguments::argument(std::string_view name) const {
  const auto found = std::ranges::find(arguments_, name, &Argument::name);
  invariant(found != arguments_.end(), "a call knows its arguments by name");
  return *found;
}

std::int64_t TrialArguments::bytes_moved() const {
  if (facts.moved > 0) return facts.moved;
  std::int64_t bytes = 0;
  for (const Argument& argument : arguments_) bytes += (argument.use == Use::updated ? 2 : 1) * argument.bytes();
  return bytes;
}

double TrialArguments::value(std::string_view name, const Draw& draw, Number number, std::int64_t i) const {
  return rounded_to(draw(RandomStream(seed_, name), static_cast<std::uint64_t>(i)), number);
}

void TrialArguments::add_up(std::string_view name, std::string_view rest) {
  std::ranges::find(arguments_, name, &Argument::name)->rest = rest;
}

std::vector<std::byte> TrialArguments::values_of(const Argument& argument, const Fill& fill) const {
  // Memory that is read only by a clock repeats its first values: to draw all of them would take minutes.
  constexpr std::int64_t most_drawn = std::int64_t{1} << 16;
  const bool is_index = argument.number == Number::index;
  const std::int64_t count = argument.extent.count();
  const std::int64_t drawn = purpose_ == Purpose::speed && !is_index ? std::min(count, most_drawn) : count;
  const bool refers = !fill.result_of.empty() && (purpose_ != Purpose::speed || is_index);
  const std::vector<double> results = refers ? references_(fill.result_of, argument.name) : std::vector<double>();
  invariant(!refers || std::ssize(results) == count, "an argument has as many values as the result that it takes");
  const RandomStream stream(seed_, argument.name);
  const std::size_t bytes = argument.type->bytes;
  std::vector<std::byte> values(static_cast<std::size_t>(count) * bytes);
  for (std::int64_t i = 0; i < drawn; ++i) {
    const auto index = static_cast<std::size_t>(i);
    argument.type->write(rounded_to(refers ? results[index] : fill.draw(stream, index), argument.number),
                         values.data() + index * bytes);
  }
  for (std::size_t done = static_cast<std::size_t>(drawn) * bytes; done < values.size();) {
    const std::size_t part = std::min(done, values.size() - done);
    std::copy_n(values.begin(), part, values.begin() + static_cast<std::ptrdiff_t>(done));
    done += part;
  }
  return values;
}

std::byte* TrialArguments::add(std::string_view name, const ElementType& type, Number number, const Extent& extent,
                               Use use, const Fill& fill) {
  Argument& argument = arguments_.emplace_back(
      Argument{.name = std::string(name), .type = &type, .number = number, .extent = extent, .use = use});
  if (purpose_ == Purpose::size) return nullptr;
  if (use != Use::output) argument.start = values_of(argument, fill);
  const std::int64_t bytes = argument.bytes() + 2 * guard_bytes;
  argument.memory = purpose_ == Purpose::reference ? at::empty({bytes}, at::TensorOptions().dtype(at::kByte))
                                                   : empty_in(Arena::device, bytes, at::kByte);
  argument.data = static_cast<std::byte*>(argument.memory.mutable_data_ptr()) + guard_bytes;
  return argument.data;
}

}  // namespace lockstep::trial
