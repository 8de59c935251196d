// An example of a plug-in: a schedule, an update rule and a callback, with options of their own. To build one:
//   g++ -O2 -fPIC -shared example_plugin.cpp -o example.so
// and to use it:
//   train config.yaml --plugin ./example.so --schedule.name halving --example.half_life 500
//     --optimizer.name signum --train.callbacks '[tally]'
#if __has_include(<lockstep/lockstep_plugin.h>)
#include <lockstep/lockstep_plugin.h>
#else
#include "lockstep_plugin.h"
#endif

#include <cmath>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

namespace {

// The options, in the order of the table below.
enum Place { half_life, momentum, note_every, stop_below };

const lockstep_option options[] = {
    {"half_life", LOCKSTEP_INTEGER, "1000", "steps in which the rate of the schedule halving falls by half", 1, 1e15,
     1},
    {"momentum", LOCKSTEP_NUMBER, "0.9", "share of its average that signum keeps at a step", 0, 0.999, 1},
    {"note_every", LOCKSTEP_INTEGER, "0", "steps between notes of the callback tally; 0: none", 0, 1e15, 0},
    {"stop_below", LOCKSTEP_NUMBER, "0", "loss of a step below which tally asks to stop", 0, 1e9, 0},
    {nullptr, LOCKSTEP_TEXT, nullptr, nullptr, 0, 0, 0},
};

double halving(const lockstep_value* values, const lockstep_schedule_facts* facts, int64_t step) {
  const auto decayed = static_cast<double>(step - facts->warmup_steps);
  const double rate = facts->peak * std::exp2(-decayed / static_cast<double>(values[half_life].integer));
  return rate > facts->min ? rate : facts->min;
}

const lockstep_schedule schedules[] = {{"halving", halving}, {nullptr, nullptr}};

/// Each weight moves by the learning rate against the sign of an average of gradients (Bernstein et al., 2018, signSGD
/// with momentum).
template <class T>
const char* signum(const lockstep_value* values, const lockstep_update* facts, int64_t count, const T* gradient,
                   T* weights, T* const* states) {
  const T kept = static_cast<T>(values[momentum].number);
  const T rate = static_cast<T>(facts->lr), decay = static_cast<T>(1 - facts->lr * facts->weight_decay);
  T* const average = states[0];
  for (int64_t i = 0; i < count; ++i) {
    average[i] = kept * average[i] + (1 - kept) * gradient[i];
    const T sign = average[i] > 0 ? T(1) : average[i] < 0 ? T(-1) : T(0);
    weights[i] = weights[i] * decay - rate * sign;
  }
  return nullptr;
}

const lockstep_optimizer optimizers[] = {
    {"signum", {"average", nullptr}, signum<float>, signum<double>},
    {nullptr, {nullptr}, nullptr, nullptr},
};

/// Counts what happens in a run, over its restarts, and looks at the loss.
struct Tally {
  const lockstep_host* host;
  long long steps = 0, evaluations = 0, saves = 0;
  std::string text = {};
};

const char* make(const lockstep_host* host, void** self) {
  *self = new (std::nothrow) Tally{host};
  return *self == nullptr ? "out of memory" : nullptr;
}

void drop(void* self) { delete static_cast<Tally*>(self); }

const char* event(void* self, lockstep_event event, const lockstep_facts* facts) {
  Tally& tally = *static_cast<Tally*>(self);
  const lockstep_value* const values = tally.host->options;
  if (event == LOCKSTEP_EVALUATED) ++tally.evaluations;
  if (event == LOCKSTEP_SAVED) ++tally.saves;
  if (event != LOCKSTEP_STEP_END) return nullptr;
  ++tally.steps;
  if (facts->loss < values[stop_below].number) tally.host->ask(tally.host, LOCKSTEP_STOP);
  const int64_t every = values[note_every].integer;
  if (every == 0 || facts->step % every != 0) return nullptr;
  char text[160];
  std::snprintf(text, sizeof text, "%lld steps, %lld evaluations, %lld saves so far; drawn %016llx", tally.steps,
                tally.evaluations, tally.saves, static_cast<unsigned long long>(tally.host->draw(tally.host)));
  tally.host->note(tally.host, text);
  return nullptr;
}

const char* save(void* self, const char** text) {
  Tally& tally = *static_cast<Tally*>(self);
  try {
    tally.text =
        std::to_string(tally.steps) + " " + std::to_string(tally.evaluations) + " " + std::to_string(tally.saves);
  } catch (const std::exception&) {
    return "out of memory";
  }
  *text = tally.text.c_str();
  return nullptr;
}

const char* load(void* self, const char* text) {
  Tally& tally = *static_cast<Tally*>(self);
  const int read = std::sscanf(text, "%lld %lld %lld", &tally.steps, &tally.evaluations, &tally.saves);
  return read == 3 ? nullptr : "its counts are not three numbers";
}

const lockstep_callback callbacks[] = {
    {"tally", LOCKSTEP_STATE_OF_RUN, 1, make, drop, event, save, load},
    {nullptr, LOCKSTEP_NO_STATE, 0, nullptr, nullptr, nullptr, nullptr, nullptr},
};

/// What is not named here it does not bring.
lockstep_plugin make_table() {
  lockstep_plugin made = {};
  made.version = LOCKSTEP_PLUGIN_VERSION;
  made.name = "example";
  made.help = "an example of a plug-in: halving, signum and tally";
  made.options = options;
  made.schedules = schedules;
  made.optimizers = optimizers;
  made.callbacks = callbacks;
  return made;
}

const lockstep_plugin table = make_table();

}  // namespace

extern "C" const lockstep_plugin* lockstep_plugin() { return &table; }
