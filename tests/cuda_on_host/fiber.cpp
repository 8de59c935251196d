#include "cuda_on_host/fiber.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef __x86_64__
#include <ucontext.h>
#endif

#include <cstdint>
#include <cstring>

namespace on_host {

namespace {
constexpr std::size_t stack_bytes = 128 << 10;  // sanitizers need much
}

#ifdef __x86_64__

// swapcontext asks the system for the mask of signals at each switch, which costs more than all the rest of a test.
// Stores the callee's registers and the stack of one fiber, and loads those of another.
extern "C" void on_host_switch(void** from, void* to);
asm(R"(
.text
.type on_host_switch, @function
on_host_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size on_host_switch, .-on_host_switch
)");

struct Context {
  void* stack = nullptr;
};
void prepare(Context& context, std::byte* stack, void (*body)()) {
  // Six registers and the address of the body; above them the stack is as after a call.
  auto* const top = reinterpret_cast<void**>(stack + stack_bytes - 64 - 8);
  std::memset(top, 0, 64);
  void** const frame = top - 7;
  std::memset(frame, 0, 7 * sizeof(void*));
  static_assert(sizeof(body) == sizeof(void*));
  std::memcpy(frame + 6, &body, sizeof(body));
  context.stack = frame;
}
void change(Context& from, Context& to) { on_host_switch(&from.stack, to.stack); }

#else

struct Context {
  ucontext_t of;
};
void prepare(Context& context, std::byte* stack, void (*body)()) {
  getcontext(&context.of);
  context.of.uc_stack.ss_sp = stack;
  context.of.uc_stack.ss_size = stack_bytes;
  context.of.uc_link = nullptr;
  makecontext(&context.of, body, 0);
}
void change(Context& from, Context& to) { swapcontext(&from.of, &to.of); }

#endif

struct Fiber::State {
  Context context;
  void (*body)() = nullptr;
  std::unique_ptr<std::byte[]> stack{new std::byte[stack_bytes]};
  void* shadow = nullptr;
};

namespace {

Context main_context;
void* main_shadow = nullptr;
const void* main_stack = nullptr;
std::size_t main_bytes = 0;
Context* running = nullptr;
void** running_shadow = nullptr;
void (*running_body)() = nullptr;

// AddressSanitizer is told which stack is in use.
void begin_switch([[maybe_unused]] void** shadow, [[maybe_unused]] const void* stack,
                  [[maybe_unused]] std::size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(shadow, stack, bytes);
#endif
}
void end_switch([[maybe_unused]] void* shadow, [[maybe_unused]] const void** from,
                [[maybe_unused]] std::size_t* bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(shadow, from, bytes);
#endif
}

void first_frame() {
  end_switch(nullptr, &main_stack, &main_bytes);
  running_body();
  __builtin_trap();
}

}  // namespace

Fiber::Fiber() : state_(std::make_unique<State>()) {}
Fiber::~Fiber() = default;
Fiber::Fiber(Fiber&&) noexcept = default;
Fiber& Fiber::operator=(Fiber&&) noexcept = default;

void Fiber::start(void (*body)()) {
#ifdef __SANITIZE_ADDRESS__
  constexpr std::size_t frames = 4096;  // of the switch: the last body has returned to them
  __asan_unpoison_memory_region(state_->stack.get() + stack_bytes - frames, frames);
#endif
  state_->body = body;
  state_->shadow = nullptr;
  prepare(state_->context, state_->stack.get(), first_frame);
}

void Fiber::resume() {
  running = &state_->context;
  running_shadow = &state_->shadow;
  running_body = state_->body;
  begin_switch(&main_shadow, state_->stack.get(), stack_bytes);
  change(main_context, state_->context);
  end_switch(main_shadow, nullptr, nullptr);
}

void leave_fiber() {
  void** const own_shadow = running_shadow;
  begin_switch(own_shadow, main_stack, main_bytes);
  change(*running, main_context);
  end_switch(*own_shadow, &main_stack, &main_bytes);
}

}  // namespace on_host
