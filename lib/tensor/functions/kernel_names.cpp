#include "tensor/functions/kernel_names.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace lockstep {

namespace {

template <class Table, class Work>
void for_each_table(Table& tables, const Work& work) {
  work(tables.f32);
  work(tables.f64);
  work(tables.bf16);
  work(tables.f16);
}

#define LOCKSTEP_ONE(name) +1
constexpr std::size_t name_count = LOCKSTEP_KERNELS(LOCKSTEP_ONE);
constexpr std::size_t exchange_name_count = LOCKSTEP_EXCHANGE_KERNELS(LOCKSTEP_ONE);
#undef LOCKSTEP_ONE
static_assert(sizeof(Kernels<float>) == name_count * sizeof(void (*)()), "LOCKSTEP_KERNELS names every entry");
static_assert(sizeof(ExchangeKernels) == exchange_name_count * sizeof(void (*)()),
              "LOCKSTEP_EXCHANGE_KERNELS names every kernel");

/// The name of an entry as a parameter of a template.
template <std::size_t length>
struct EntryName {
  char text[length] = {};
  consteval EntryName(const char (&name)[length]) { std::copy_n(name, length, text); }
};

/// A function with the signature of the entry.
template <class T, EntryName name, class Function>
struct Refusal;
template <class T, EntryName name, class... Arguments>
struct Refusal<T, name, void (*)(Arguments...)> {
  static void call(Arguments...) {
    fail(ExitCode::bug, "the device has no kernel {} for {}", name.text, table_name<T>);
  }
};

template <class T>
void refuse_absent(Kernels<T>& kernels) {
#define LOCKSTEP_REFUSE(name) \
  if (kernels.name == nullptr) kernels.name = Refusal<T, #name, decltype(kernels.name)>::call;
  LOCKSTEP_KERNELS(LOCKSTEP_REFUSE)
#undef LOCKSTEP_REFUSE
}

}  // namespace

std::set<std::string> absent_kernels(const KernelTables& tables) {
  std::set<std::string> absent;
  for_each_table(tables, [&]<class T>(const Kernels<T>& kernels) {
    for_each_kernel(kernels, [&](std::string_view name, auto* entry) {
      if (entry == nullptr) absent.insert(fmt::format("{} {}", table_name<T>, name));
    });
  });
  return absent;
}

KernelTables with_refusals(KernelTables tables) {
  for_each_table(tables, [](auto& kernels) { refuse_absent(kernels); });
  return tables;
}

}  // namespace lockstep
