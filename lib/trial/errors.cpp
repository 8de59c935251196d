#include "trial/errors.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "device/device.hpp"
#include "tensor/arena.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

namespace lockstep::trial {

namespace {

/// Memory holds these bytes before the first and the second call: not-a-number, and a number that no kernel computes.
constexpr std::array poisons{std::byte{0xff}, std::byte{0x7f}};

/// Calls work(place in `start`, place in memory) for each element of an argument, places in bytes.
template <class Work>
void for_each_element(const Argument& argument, const Work& work) {
  const auto bytes = static_cast<std::int64_t>(argument.type->bytes);
  for (std::int64_t i = 0; i < argument.extent.count(); ++i)
    work(static_cast<std::size_t>(i * bytes),
         static_cast<std::size_t>(TrialArguments::guard_bytes + argument.extent.place(i) * bytes));
}

/// The memory of an argument before a call.
std::vector<std::byte> image_of(const Argument& argument, std::byte poison) {
  std::vector<std::byte> image(static_cast<std::size_t>(argument.memory.nbytes()), poison);
  if (!argument.start.empty())
    for_each_element(argument, [&](std::size_t from, std::size_t to) {
      std::memcpy(image.data() + to, argument.start.data() + from, argument.type->bytes);
    });
  return image;
}

/// The elements of an argument in its memory, without what lies between and around them.
std::vector<std::byte> elements_in(const Argument& argument, const std::vector<std::byte>& image) {
  std::vector<std::byte> elements(static_cast<std::size_t>(argument.extent.count()) * argument.type->bytes);
  for_each_element(argument, [&](std::size_t to, std::size_t from) {
    std::memcpy(elements.data() + to, image.data() + from, argument.type->bytes);
  });
  return elements;
}

/// The first byte outside the elements that differs from the poison, relative to the first element; nothing if none.
std::optional<std::int64_t> touched_outside(const Argument& argument, std::vector<std::byte> image, std::byte poison) {
  for_each_element(argument, [&](std::size_t, std::size_t at) {
    std::fill_n(image.begin() + static_cast<std::ptrdiff_t>(at), argument.type->bytes, poison);
  });
  const auto found = std::ranges::find_if(image, [&](std::byte byte) { return byte != poison; });
  if (found == image.end()) return std::nullopt;
  return found - image.begin() - TrialArguments::guard_bytes;
}

/// The values of one part of each element. With `rest`, its values are added.
std::vector<double> values_of(const Argument& argument, const std::vector<std::byte>& elements, int part) {
  std::vector<double> values;
  for (std::size_t at = 0; at < elements.size(); at += argument.type->bytes)
    values.push_back(argument.type->read(elements.data() + at, part));
  return values;
}

using Elements = std::vector<std::vector<std::byte>>;  // by argument

/// Fills the arguments, runs the call, and returns what it left in them. `fault` says what it must not have done.
template <class Run>
Elements called(TrialArguments& call, std::byte poison, const Run& run, std::string& fault) {
  const Arena arena = call.purpose() == Purpose::reference ? Arena::host : Arena::device;
  for (const Argument& argument : call.arguments())
    write_region(image_of(argument, poison), region_of(argument.memory, arena));
  this_device().follow(call.facts.queue, this_device().record(DeviceQueue::compute));
  run();
  this_device().wait(this_device().record(call.facts.queue));
  Elements results;
  for (const Argument& argument : call.arguments()) {
    std::vector<std::byte> image(static_cast<std::size_t>(argument.memory.nbytes()));
    read_region(region_of(argument.memory, arena), image);
    if (const auto touched = touched_outside(argument, image, poison); touched && fault.empty())
      fault = *touched < 0                   ? fmt::format("it writes before the begin of {}", argument.name)
              : *touched >= argument.bytes() ? fmt::format("it writes past the end of {}", argument.name)
                                             : fmt::format("it writes between the rows of {}", argument.name);
    results.push_back(elements_in(argument, image));
    if (argument.use == Use::input && results.back() != argument.start && fault.empty())
      fault = fmt::format("it changes {}, which it may only read", argument.name);
  }
  return results;
}

bool holds_poison(const std::vector<std::byte>& elements, std::size_t at, std::size_t bytes, std::byte poison) {
  return std::all_of(elements.begin() + static_cast<std::ptrdiff_t>(at),
                     elements.begin() + static_cast<std::ptrdiff_t>(at + bytes),
                     [&](std::byte byte) { return byte == poison; });
}

/// What two calls with equal arguments say without a reference: elements that neither wrote, and different bits.
std::string fault_of_two(const Argument& argument, const std::vector<std::byte>& first,
                         const std::vector<std::byte>& second) {
  const std::size_t bytes = argument.type->bytes;
  std::int64_t unwritten = 0, different = 0;
  for (std::size_t at = 0; at < first.size(); at += bytes) {
    if (argument.use == Use::output && holds_poison(first, at, bytes, poisons[0]) &&
        holds_poison(second, at, bytes, poisons[1]))
      ++unwritten;
    else if (std::memcmp(first.data() + at, second.data() + at, bytes) != 0)
      ++different;
  }
  const std::int64_t count = argument.extent.count();
  if (unwritten > 0) return fmt::format("it leaves {} of {} values of {} unwritten", unwritten, count, argument.name);
  if (different > 0)
    return fmt::format("it is not deterministic: two calls with equal arguments differ in {} of {} values of {}",
                       different, count, argument.name);
  return {};
}

struct Bounds {
  double l2 = 0, largest = 0;
};

Bounds bounds_of(const TrialArguments& call, const Argument& argument, const TrialSizes& sizes) {
  if (argument.number == Number::index) return {};
  constexpr std::int64_t least_terms = 16;
  const CallFacts& facts = call.facts;
  const double own = roundoff(argument.number);
  const bool has_tf32 = sizes.tf32 && facts.multiplies && call.tested() == Number::fp32;
  const double within = roundoff(facts.within) + (has_tf32 ? std::ldexp(1.0, -11) : 0);
  const double rounding = 2 * (argument.rest.empty() ? own : own * own) + 4 * within;
  const double sums =
      4 * std::sqrt(static_cast<double>(std::max(facts.terms, least_terms))) * roundoff(math_of(call.tested()));
  return {facts.slack * (rounding + sums), facts.slack * (4 * rounding + 16 * sums)};
}

/// Compares the values of one output and keeps them in `errors` if they are nearer to their bound than those there.
void compare(const std::string& name, const std::vector<double>& values, const std::vector<double>& wanted,
             const Bounds& bounds, TrialErrors& errors) {
  double squares = 0, wanted_squares = 0;
  std::int64_t not_numbers = 0, other = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double difference = values[i] == wanted[i] ? 0 : values[i] - wanted[i];
    if (std::isnan(values[i]) && !std::isnan(wanted[i])) ++not_numbers;
    if (difference != 0) ++other;
    if (std::isfinite(wanted[i])) wanted_squares += wanted[i] * wanted[i];
    squares += difference * difference;
  }
  if (not_numbers > 0 && errors.fault.empty())
    errors.fault = fmt::format("{} of {} values of {} are NaN", not_numbers, wanted.size(), name);
  const bool is_exact = bounds.l2 == 0;
  if (is_exact && other > 0 && errors.fault.empty())
    errors.fault = fmt::format("{} of {} values of {} are wrong", other, wanted.size(), name);
  if (is_exact) return;
  const double mean_square = std::sqrt(wanted_squares / static_cast<double>(std::max<std::size_t>(1, wanted.size())));
  const double tiny = std::numeric_limits<double>::min();
  const double l2 = std::sqrt(squares / std::max(wanted_squares, tiny));
  double largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (values[i] != wanted[i])
      largest = std::max(largest, std::abs(values[i] - wanted[i]) / std::max(std::abs(wanted[i]) + mean_square, tiny));
  const auto share = [](double error, double bound) { return bound > 0 ? error / bound : 0; };
  const double worst = std::max(share(errors.l2, errors.l2_bound), share(errors.largest, errors.largest_bound));
  const double own = std::max(share(l2, bounds.l2), share(largest, bounds.largest));
  if (own > worst || errors.output.empty() || std::isnan(own)) {
    errors.l2 = l2;
    errors.largest = largest;
    errors.l2_bound = bounds.l2;
    errors.largest_bound = bounds.largest;
    errors.output = name;
  }
  if (!(own <= 1) && errors.fault.empty())
    errors.fault = fmt::format("the error of {} is {:.2g}, the largest {:.2g}; the bounds are {:.2g} and {:.2g}", name,
                               l2, largest, bounds.l2, bounds.largest);
}

/// The number types of a call, each once.
std::string types_of(TrialArguments& call) {
  std::vector<std::string> names;
  for (const Argument& argument : call.arguments()) {
    if (argument.number == Number::index) continue;
    const std::string name(name_of(argument.number));
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::ranges::sort(names);
  return join(names, " ");
}

/// Runs a call in fp64 on the CPU.
Elements reference_of(KernelCall<double>& call) {
  static const TriedKernels<double> kernels{cpu_kernels().f64, cpu_exchange_kernels()};
  std::string fault;
  Elements results = called(call, poisons[0], [&] { call.run(kernels); }, fault);
  invariant(fault.empty(), "the reference of a kernel keeps to its arguments");
  return results;
}

}  // namespace

References references_of(Number tested, const TrialSizes& sizes, std::uint64_t seed) {
  return [tested, &sizes, seed](std::string_view trial, std::string_view name) {
    KernelCall<double> call(Purpose::reference, tested, seed, references_of(tested, sizes, seed));
    trial_of(trial).f64(call, sizes);
    const Elements results = reference_of(call);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (call.arguments()[i].name == name) return values_of(call.arguments()[i], results[i], 0);
    fail(ExitCode::bug, "the trial of {} has no result {}", trial, name);
  };
}

template <class T>
TrialErrors compare_with_reference(const Trial& trial, const TriedKernels<T>& kernels, const TrialSizes& sizes,
                                   std::uint64_t seed) {
  constexpr Number tested = number_of<T>;
  const References references = references_of(tested, sizes, seed);
  KernelCall<T> call(Purpose::errors, tested, seed, references);
  trial.describe<T>()(call, sizes);
  TrialErrors errors{.shape = call.facts.shape, .types = types_of(call)};
  std::array<Elements, poisons.size()> results;
  for (std::size_t i = 0; i < poisons.size(); ++i)
    results[i] = called(call, poisons[i], [&] { call.run(kernels); }, errors.fault);
  KernelCall<double> reference(Purpose::reference, tested, seed, references);
  trial.f64(reference, sizes);
  const Elements wanted = reference_of(reference);
  for (std::size_t i = 0; i < call.arguments().size(); ++i) {
    const Argument& argument = call.arguments()[i];
    if (argument.use == Use::input) continue;
    if (errors.fault.empty()) errors.fault = fault_of_two(argument, results[0][i], results[1][i]);
    const auto other = std::ranges::find(reference.arguments(), argument.name, &Argument::name);
    if (other == reference.arguments().end()) continue;  // the rest of another argument
    const auto& exact = wanted[static_cast<std::size_t>(other - reference.arguments().begin())];
    for (int part = 0; part < argument.type->parts; ++part) {
      std::vector<double> values = values_of(argument, results[0][i], part);
      for (std::size_t rest = 0; !argument.rest.empty() && rest < call.arguments().size(); ++rest)
        if (call.arguments()[rest].name == argument.rest)
          std::ranges::transform(values, values_of(call.arguments()[rest], results[0][rest], part), values.begin(),
                                 std::plus<>());
      compare(argument.name, values, values_of(*other, exact, part), bounds_of(call, argument, sizes), errors);
    }
  }
  return errors;
}

template TrialErrors compare_with_reference(const Trial&, const TriedKernels<float>&, const TrialSizes&, std::uint64_t);
template TrialErrors compare_with_reference(const Trial&, const TriedKernels<double>&, const TrialSizes&,
                                            std::uint64_t);
template TrialErrors compare_with_reference(const Trial&, const TriedKernels<Bf16>&, const TrialSizes&, std::uint64_t);
template TrialErrors compare_with_reference(const Trial&, const TriedKernels<Fp16>&, const TrialSizes&, std::uint64_t);

}  // namespace lockstep::trial
