// One call of a kernel, described once for several purposes: on a device, and as its reference in fp64 on the CPU,
// whose arguments have the same values. The kernel is an entry of Kernels<T> or one of exchanges between ranks.
// Arguments have names. The values of an argument depend only on the seed, its name and its type, so two calls with an
// argument of one name get the same values. Which calls there are: trial/trials.hpp.
#pragma once

#include "base/random.hpp"
#include "device/device.hpp"
#include "tensor/functions/kernel_table.hpp"
#include "trial/numbers_in_memory.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::trial {

/// The role of an argument gives its element type in a call on data stored as T. The reference has T = double for each
/// tested type; its values are rounded to the type that they have on the device.
struct Stored {
  template <class T>
  using Of = T;
  static Number number(Number tested) { return tested; }
};
struct Wide {  // the type of sums
  template <class T>
  using Of = Math<T>;
  static Number number(Number tested) { return math_of(tested); }
};
struct Real {  // fp64 for each T
  template <class T>
  using Of = double;
  static Number number(Number) { return Number::fp64; }
};
struct Brief {  // optimizer state or weights in bf16; not for a tested type of fp64
  template <class T>
  using Of = std::conditional_t<std::is_same_v<T, double>, double, Bf16>;
  static Number number(Number) { return Number::bf16; }
};
template <class E>
struct Exactly {  // the same type in the reference
  template <class T>
  using Of = E;
  static Number number(Number) { return number_of<E>; }
};
inline constexpr Stored stored;
inline constexpr Wide wide;
inline constexpr Real real;
inline constexpr Brief brief;
inline constexpr Exactly<Bf16> compute_copy;  // the compute copy of weights
inline constexpr Exactly<std::int32_t> index32;
inline constexpr Exactly<std::int64_t> index64;
inline constexpr Exactly<Statistics> whole_statistics;

/// Rows of an argument, `stride` elements apart.
struct Extent {
  std::int64_t rows = 1, columns = 0, stride = 0;
  Extent(std::int64_t count) : columns(count), stride(count) {}
  Extent(std::int64_t row_count, std::int64_t column_count)
      : rows(row_count), columns(column_count), stride(column_count) {}
  Extent(std::int64_t row_count, std::int64_t column_count, std::int64_t row_stride)
      : rows(row_count), columns(column_count), stride(row_stride) {}
  std::int64_t count() const { return rows * columns; }
  std::int64_t in_memory() const { return rows == 0 ? 0 : (rows - 1) * stride + columns; }
  /// The element in memory of value i.
  std::int64_t place(std::int64_t i) const { return columns == stride ? i : i / columns * stride + i % columns; }
};

/// A value of an argument by its index.
using Draw = std::function<double(const RandomStream& stream, std::uint64_t index)>;
Draw normal(double deviation = 1, double mean = 0);
Draw uniform(double least, double below);
Draw constant(double value);
/// Given values; a call for speed has them all too.
template <class I>
Draw given(std::vector<I> values) {
  return [kept = std::move(values)](const RandomStream&, std::uint64_t i) { return static_cast<double>(kept.at(i)); };
}

/// How an argument is filled.
struct Fill {
  Draw draw = normal();
  std::string_view result_of = {};  // the trial whose reference makes the values; empty: drawn
  Fill() = default;
  Fill(Draw values) : draw(std::move(values)) {}
  Fill(std::string_view trial, Draw without) : draw(std::move(without)), result_of(trial) {}
};
/// The values that the reference of another trial gives to its output of this name. A call for speed, which needs no
/// consistent numbers, draws `without` instead, except for indices.
inline Fill result_of(std::string_view trial, Draw without = constant(0)) { return {trial, std::move(without)}; }

enum class Use : std::uint8_t { input, output, updated };

/// An argument in memory.
struct Argument {
  std::string name;
  const ElementType* type = nullptr;
  Number number = Number::index;  // that its values are rounded to
  Extent extent = 0;
  Use use = Use::input;
  std::vector<std::byte> start = {};  // its values before the call; empty for an output
  at::Tensor memory = {};             // guards on both sides
  std::byte* data = nullptr;
  std::string_view rest = {};  // an argument that holds what its own values leave out; compared with it
  std::int64_t bytes() const { return extent.in_memory() * static_cast<std::int64_t>(type->bytes); }
};

/// The numbers of a call, for tables and bounds.
struct CallFacts {
  std::string shape;                         // for people: "61x77"
  double flops = 0;                          // of products; 0: the call is bounded by the memory that it moves
  std::int64_t moved = 0;                    // bytes of memory; 0: those of its arguments
  std::int64_t terms = 1;                    // of its longest sum
  Number within = Number::index;             // values between its sums may be rounded to this type; index: none are
  bool multiplies = false;                   // TF32 may apply
  double slack = 1;                          // factor of the bounds; 0: outputs must be equal
  DeviceQueue queue = DeviceQueue::compute;  // in which the kernel runs
};

/// The purpose of a call decides where its arguments lie, and whether they have values.
enum class Purpose : std::uint8_t {
  size,       // nowhere: only bytes are counted
  errors,     // on the device, with values for a comparison
  reference,  // on the host, with the same values
  speed,      // on the device, with some values
};

/// The results of other trials' references: values by trial and argument.
using References = std::function<std::vector<double>(std::string_view trial, std::string_view argument)>;

class TrialArguments {
 public:
  /// Bytes before and after the values of an argument on a device, which no kernel may touch.
  static constexpr std::int64_t guard_bytes = 256;

  TrialArguments(Purpose purpose, Number tested, std::uint64_t seed, References references)
      : purpose_(purpose), tested_(tested), seed_(seed), references_(std::move(references)) {}

  CallFacts facts;
  Number tested() const { return tested_; }
  Purpose purpose() const { return purpose_; }
  std::vector<Argument>& arguments() { return arguments_; }
  const Argument& argument(std::string_view name) const;
  /// The bytes that the call moves.
  std::int64_t bytes_moved() const;
  /// Value i of an argument of this name that is drawn, rounded.
  double value(std::string_view name, const Draw& draw, Number number, std::int64_t i) const;
  /// The values of `name` are the sums with those of `rest`.
  void add_up(std::string_view name, std::string_view rest);

 protected:
  std::byte* add(std::string_view name, const ElementType& type, Number number, const Extent& extent, Use use,
                 const Fill& fill);

 private:
  std::vector<std::byte> values_of(const Argument& argument, const Fill& fill) const;

  Purpose purpose_;
  Number tested_;
  std::uint64_t seed_;
  References references_;
  std::vector<Argument> arguments_;
};

/// The kernels of a device for data stored as T, and those of its exchanges.
template <class T>
struct TriedKernels {
  Kernels<T> of_type;
  ExchangeKernels exchange = {};
};
template <class T>
TriedKernels(const Kernels<T>&, const ExchangeKernels&) -> TriedKernels<T>;

/// A call of an entry of Kernels<T>, or of a kernel of exchanges on data stored as T.
template <class T>
class KernelCall : public TrialArguments {
 public:
  using TrialArguments::TrialArguments;

  template <class Role>
  const typename Role::template Of<T>* in(Role, std::string_view name, const Extent& extent, const Fill& fill = {}) {
    return argument_in<Role>(name, extent, Use::input, fill);
  }
  template <class Role>
  typename Role::template Of<T>* out(Role, std::string_view name, const Extent& extent) {
    return argument_in<Role>(name, extent, Use::output, {});
  }
  /// An argument that the kernel reads and writes.
  template <class Role>
  typename Role::template Of<T>* updated(Role, std::string_view name, const Extent& extent, const Fill& fill = {}) {
    return argument_in<Role>(name, extent, Use::updated, fill);
  }
  /// Names the entry and its arguments, in its order.
  template <class... Parameters, class... Given>
  void operator()(void (*Kernels<T>::*entry)(Parameters...), Given&&... given_arguments) {
    run_ = [entry, kept = std::tuple<std::decay_t<Parameters>...>(std::forward<Given>(given_arguments)...)](
               const TriedKernels<T>& kernels) { std::apply(kernels.of_type.*entry, kept); };
  }
  /// Gives the call of a kernel of exchanges.
  void exchange(std::function<void(const ExchangeKernels& kernels)> call) {
    facts.queue = DeviceQueue::exchange;
    run_ = [kept = std::move(call)](const TriedKernels<T>& kernels) { kept(kernels.exchange); };
  }
  void run(const TriedKernels<T>& kernels) const { run_(kernels); }

 private:
  template <class Role>
  typename Role::template Of<T>* argument_in(std::string_view name, const Extent& extent, Use use, const Fill& fill) {
    using Element = typename Role::template Of<T>;
    return reinterpret_cast<Element*>(add(name, element_type<Element>(), Role::number(tested()), extent, use, fill));
  }
  std::function<void(const TriedKernels<T>&)> run_;
};

}  // namespace lockstep::trial
