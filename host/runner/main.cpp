// Runs an ExecuTorch program and reports what happened as JSON lines.
//
// In: a `.pte`, input files, how often to run. Out, in this order: `hello`; `loaded`; `note`s;
// `outputs` of the first run with the positions of inputs that it changed; `samples`, the times of the
// untraced runs; `conditions`, what the machine did meanwhile; `trace`, when traced runs were asked for; `done`; or `error` as the last line.
// Untraced runs come first, so that their times and the peak memory are free of the tracer.

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/clock.h>
#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <fstream>
#include <sstream>

#include "arguments.h"
#include "conditions.h"
#include "messages.h"
#include "program.h"
#include "tensors.h"

namespace runner {
namespace {

using executorch::etdump::ETDumpGen;
using Clock = std::chrono::steady_clock;

// The runtime's last words; they go to stderr as well. Written by one thread at a time in practice,
// and read after the runtime has returned.
std::deque<std::string>& runtime_log() {
  static std::deque<std::string> lines;
  return lines;
}

void keep_log(
    et_timestamp_t /*timestamp*/,
    et_pal_log_level_t level,
    const char* filename,
    const char* /*function*/,
    size_t line,
    const char* message,
    size_t length) {
  std::string text(message, length);
  const char* slash = std::strrchr(filename, '/');
  std::fprintf(
      stderr, "%c %s:%zu] %s\n", static_cast<char>(level), slash != nullptr ? slash + 1 : filename, line, text.c_str());
  if (level == kError || level == kFatal) {
    runtime_log().push_back(std::move(text));
    if (runtime_log().size() > 8) {
      runtime_log().pop_front();
    }
  }
}

uint64_t nanoseconds_since(Clock::time_point start) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

#if defined(__aarch64__)
// The features that XNNPACK asks for, as the kernel tells them to this process and by the names of
// /proc/cpuinfo: that file is the host's own under emulation.
std::vector<std::string> arm_features() {
  const struct {
    const char* name;
    unsigned long kind;
    int bit;
  } features[] = {
      {"fp", AT_HWCAP, 0},       {"asimd", AT_HWCAP, 1},  {"fphp", AT_HWCAP, 9},   {"asimdhp", AT_HWCAP, 10},
      {"asimdrdm", AT_HWCAP, 12}, {"asimddp", AT_HWCAP, 20}, {"sve", AT_HWCAP, 22},  {"sve2", AT_HWCAP2, 1},
      {"i8mm", AT_HWCAP2, 13},   {"bf16", AT_HWCAP2, 14}, {"sme", AT_HWCAP2, 23},  {"sme2", AT_HWCAP2, 37},
  };
  std::vector<std::string> known;
  for (const auto& feature : features) {
    if ((getauxval(feature.kind) >> feature.bit) & 1) {
      known.push_back(feature.name);
    }
  }
  return known;
}
#endif

// The CPU as /proc/cpuinfo tells it: the first processor's name and features.
void describe_cpu(Json& json) {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  std::string model;
  std::string features;
  while (std::getline(info, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) {
      continue;
    }
    const std::string name = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
    if (model.empty() && name == "model name") {
      model = value;
    } else if (features.empty() && (name == "flags" || name == "Features")) {
      features = value;
    }
  }
  std::vector<std::string> known;
  std::istringstream words(features);
  for (std::string word; words >> word;) {
    known.push_back(word);
  }
#if defined(__aarch64__)
  known = arm_features();
#endif
  json.field("cpu", model).list("cpu_features", known);
}

void describe_values(Json& json, const MethodMeta& meta, bool inputs) {
  json.key(inputs ? "inputs" : "outputs").begin_array();
  for (size_t i = 0; i < (inputs ? meta.num_inputs() : meta.num_outputs()); ++i) {
    const auto tag = inputs ? meta.input_tag(i) : meta.output_tag(i);
    json.begin_object().field("kind", tag.ok() ? tag_name(*tag) : "unknown");
    const auto info = inputs ? meta.input_tensor_meta(i) : meta.output_tensor_meta(i);
    if (tag.ok() && *tag == Tag::Tensor && info.ok()) {
      const std::vector<int64_t> sizes(info->sizes().begin(), info->sizes().end());
      const std::vector<int64_t> dim_order(info->dim_order().begin(), info->dim_order().end());
      json.field("dtype", dtype_name(info->scalar_type())).list("sizes", sizes).list("dim_order", dim_order);
    }
    json.end_object();
  }
  json.end_array();
}

class Session {
 public:
  Session(Messages& messages, Arguments arguments) : messages_(messages), arguments_(std::move(arguments)) {}

  std::optional<Failure> run() {
    std::vector<InputTensor> inputs(arguments_.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string wrong = inputs[i].load(arguments_.inputs[i]);
      if (!wrong.empty()) {
        return Failure{"inputs", Error::InvalidArgument, "input " + std::to_string(i) + ": " + wrong};
      }
    }
    auto* pool = executorch::extension::threadpool::get_threadpool();
    if (pool == nullptr || !pool->_unsafe_reset_threadpool(arguments_.threads) ||
        pool->get_thread_count() != arguments_.threads) {
      return Failure{
          "threads", Error::Internal, "the thread pool cannot have " + std::to_string(arguments_.threads) + " threads"};
    }
    if (auto failure = load_program()) {
      return failure;
    }
    if (auto failure = untraced(inputs)) {
      return failure;
    }
    peak_memory_ = memory_figure("/proc/self/status", "VmHWM");
    if (!arguments_.trace.empty() && arguments_.trace_iterations > 0) {
      if (auto failure = traced(inputs)) {
        return failure;
      }
    }
    return std::nullopt;
  }

  uint64_t peak_memory() const {
    return peak_memory_;
  }

 private:
  std::optional<Failure> load_program() {
    const auto start = Clock::now();
    auto loader = executorch::extension::FileDataLoader::from(arguments_.model.c_str());
    if (!loader.ok()) {
      return Failure{"load", loader.error(), "`" + arguments_.model + "` cannot be opened"};
    }
    loader_ = std::make_unique<executorch::extension::FileDataLoader>(std::move(*loader));
    auto program = Program::load(loader_.get(), Program::Verification::InternalConsistency);
    if (!program.ok()) {
      return Failure{"load", program.error(), "`" + arguments_.model + "` is no program that this runtime can load"};
    }
    program_ = std::make_unique<Program>(std::move(*program));
    method_name_ = arguments_.method;
    if (method_name_.empty()) {
      for (size_t i = 0; i < program_->num_methods(); ++i) {
        const auto name = program_->get_method_name(i);
        if (name.ok() && (i == 0 || std::string_view(*name) == "forward")) {
          method_name_ = *name;
        }
      }
    }
    load_ns_ = nanoseconds_since(start);
    return std::nullopt;
  }

  std::optional<Failure> untraced(std::vector<InputTensor>& inputs) {
    const auto start = Clock::now();
    LoadedMethod loaded;
    if (auto failure = loaded.load(*program_, method_name_, nullptr)) {
      return failure;
    }
    load_ns_ += nanoseconds_since(start);
    const auto meta = loaded.method().method_meta();
    Json json;
    json.begin_object().field("event", "loaded").field("method", method_name_).field("load_ns", load_ns_);
    json.field("planned_bytes", loaded.planned_bytes());
    json.field("instructions", static_cast<uint64_t>(meta.num_instructions()));
    json.key("backends").begin_array();
    for (size_t i = 0; i < meta.num_backends(); ++i) {
      const auto name = meta.get_backend_name(i);
      json.value(name.ok() ? *name : "unknown");
    }
    json.end_array();
    describe_values(json, meta, true);
    describe_values(json, meta, false);
    messages_.send(json.end_object());
    // Asked to run nothing: the declarations are the answer.
    if (arguments_.iterations == 0 && arguments_.warmup == 0 && arguments_.trace.empty() &&
        arguments_.output_dir.empty()) {
      Json nothing;
      messages_.send(
          nothing.begin_object()
              .field("event", "samples")
              .list("warmup_ns", std::vector<uint64_t>())
              .list("ns", std::vector<uint64_t>())
              .end_object());
      return std::nullopt;
    }
    if (auto failure = loaded.check_inputs(inputs)) {
      return failure;
    }
    note_layouts(meta, inputs);

    std::vector<uint64_t> warmup;
    std::vector<uint64_t> samples;
    uint64_t measured = 0;
    uint64_t warmed = 0;
    const uint64_t budget = budget_ns();
    const bool wants_outputs = !arguments_.output_dir.empty();
    const Reading before = Reading::now();
    // The first run is the one whose outputs are kept; it is cold, so with any warm-up it is no sample.
    for (uint64_t run = 0;; ++run) {
      const bool warming = run < arguments_.warmup ||
          (run < arguments_.warmup_limit && warmed < budget && still_falling(warmup));
      const bool first_only = run == 0 && arguments_.iterations == 0 && wants_outputs;
      if (!warming && !first_only &&
          (samples.size() >= arguments_.iterations || (!samples.empty() && measured >= budget))) {
        break;
      }
      uint64_t elapsed = 0;
      if (auto failure = execute(loaded, inputs, elapsed)) {
        return failure;
      }
      if (run == 0) {
        if (auto failure = first_run(loaded, inputs)) {
          return failure;
        }
      }
      if (warming) {
        warmup.push_back(elapsed);
        warmed += elapsed;
      } else if (samples.size() < arguments_.iterations) {
        samples.push_back(elapsed);
        measured += elapsed;
      }
    }
    Json times;
    times.begin_object().field("event", "samples").list("warmup_ns", warmup).list("ns", samples);
    messages_.send(times.end_object());
    messages_.send(conditions_event(before, Reading::now()));
    return std::nullopt;
  }

  // Whether one of the last two runs was faster than every run before by more than chance makes it.
  static bool still_falling(const std::vector<uint64_t>& times) {
    constexpr size_t kLast = 2;
    if (times.size() <= kLast) {
      return true;
    }
    const auto last = times.end() - kLast;
    const auto fastest_before = static_cast<double>(*std::min_element(times.begin(), last));
    const auto fastest_lately = static_cast<double>(*std::min_element(last, times.end()));
    return fastest_lately < 0.98 * fastest_before;
  }

  std::optional<Failure> execute(LoadedMethod& loaded, std::vector<InputTensor>& inputs, uint64_t& elapsed) {
    if (changes_inputs_) {
      for (auto& input : inputs) {
        input.restore();
      }
    }
    if (auto failure = loaded.set_inputs(inputs)) {
      return failure;
    }
    const auto start = Clock::now();
    const Error error = loaded.method().execute();
    elapsed = nanoseconds_since(start);
    if (error != Error::Ok) {
      return Failure{"execute", error, "the program failed while running"};
    }
    return std::nullopt;
  }

  std::optional<Failure> first_run(LoadedMethod& loaded, const std::vector<InputTensor>& inputs) {
    std::vector<uint64_t> changed;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].changed()) {
        changed.push_back(i);
      }
    }
    changes_inputs_ = !changed.empty();
    Json json;
    json.begin_object().field("event", "outputs").list("mutated_inputs", changed).key("tensors").begin_array();
    for (size_t i = 0; !arguments_.output_dir.empty() && i < loaded.method().outputs_size(); ++i) {
      const auto& value = loaded.method().get_output(i);
      // `None` and plain numbers are no results to compare; the eager side leaves them out as well.
      if (!value.isTensor()) {
        continue;
      }
      OutputTensor output;
      std::string wrong = read_output(value, output);
      if (!wrong.empty()) {
        return Failure{"outputs", Error::NotSupported, "output " + std::to_string(i) + ": " + wrong};
      }
      const std::string path = arguments_.output_dir + "/output_" + std::to_string(i) + ".bin";
      wrong = write_file(path, output.bytes.data(), output.bytes.size());
      if (!wrong.empty()) {
        return Failure{"outputs", Error::AccessFailed, wrong};
      }
      json.begin_object().field("path", path).field("dtype", output.dtype).list("sizes", output.sizes).end_object();
    }
    messages_.send(json.end_array().end_object());
    return std::nullopt;
  }

  std::optional<Failure> traced(std::vector<InputTensor>& inputs) {
    ETDumpGen tracer;
    LoadedMethod loaded;
    if (auto failure = loaded.load(*program_, method_name_, &tracer)) {
      return failure;
    }
    uint64_t elapsed = 0;
    for (uint32_t i = 0; i < std::max<uint32_t>(1, std::min<uint32_t>(arguments_.warmup, 2)); ++i) {
      if (auto failure = execute(loaded, inputs, elapsed)) {
        return failure;
      }
    }
    tracer.reset();
    std::vector<uint64_t> samples;
    uint64_t measured = 0;
    const uint64_t at_least = std::min<uint32_t>(arguments_.trace_iterations, 3);
    while (samples.size() < arguments_.trace_iterations &&
           (samples.size() < at_least || measured < budget_ns())) {
      if (auto failure = execute(loaded, inputs, elapsed)) {
        return failure;
      }
      samples.push_back(elapsed);
      measured += elapsed;
    }
    const auto dump = tracer.get_etdump_data();
    if (dump.buf == nullptr || dump.size == 0) {
      return Failure{"trace", Error::Internal, "the runtime recorded no trace"};
    }
    const std::string wrong = write_file(arguments_.trace, dump.buf, dump.size);
    std::free(dump.buf);
    if (!wrong.empty()) {
      return Failure{"trace", Error::AccessFailed, wrong};
    }
    const auto ratio = executorch::runtime::pal_ticks_to_ns_multiplier();
    Json json;
    json.begin_object().field("event", "trace").field("path", arguments_.trace).list("ns", samples);
    json.field("ns_per_tick_numerator", static_cast<uint64_t>(ratio.numerator));
    json.field("ns_per_tick_denominator", static_cast<uint64_t>(ratio.denominator));
    messages_.send(json.end_object());
    return std::nullopt;
  }

  // Says when an input is laid out in another order than the program was made for: the runtime may
  // read it wrongly without an error.
  void note_layouts(const MethodMeta& meta, const std::vector<InputTensor>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto info = meta.input_tensor_meta(i);
      if (!info.ok()) {
        continue;
      }
      const std::vector<uint8_t> wanted(info->dim_order().begin(), info->dim_order().end());
      if (wanted != inputs[i].dim_order()) {
        Json json;
        json.begin_object().field("event", "note").field(
            "message",
            "input " + std::to_string(i) + " is laid out in dimension order " + join(inputs[i].dim_order()) +
                ", the program was made for " + join(wanted));
        messages_.send(json.end_object());
      }
    }
  }

  uint64_t budget_ns() const {
    constexpr uint64_t kNanosecondsPerMillisecond = 1'000'000;
    return arguments_.max_measure_ms > UINT64_MAX / kNanosecondsPerMillisecond
        ? UINT64_MAX
        : arguments_.max_measure_ms * kNanosecondsPerMillisecond;
  }

  Messages& messages_;
  const Arguments arguments_;
  std::unique_ptr<executorch::extension::FileDataLoader> loader_;
  std::unique_ptr<Program> program_;
  std::string method_name_;
  uint64_t load_ns_ = 0;
  uint64_t peak_memory_ = 0;
  bool changes_inputs_ = false;
};

void send_hello(Messages& messages) {
  utsname system = {};
  uname(&system);
  Json json;
  json.begin_object().field("event", "hello").field("protocol", kProtocol).field("runner", kVersion);
  json.field("system", system.sysname).field("release", system.release).field("architecture", system.machine);
  describe_cpu(json);
  json.key("backends").begin_array();
  for (size_t i = 0; i < executorch::runtime::get_num_registered_backends(); ++i) {
    const auto name = executorch::runtime::get_backend_name(i);
    json.value(name.ok() ? *name : "unknown");
  }
  json.end_array().field("kernels", static_cast<uint64_t>(executorch::runtime::get_registered_kernels().size()));
  messages.send(json.end_object());
}

int fail(Messages& messages, const Failure& failure) {
  const char* name = executorch::runtime::to_string(failure.code);
  constexpr std::string_view kPrefix = "Error::";
  std::string_view short_name(name);
  if (short_name.substr(0, kPrefix.size()) == kPrefix) {
    short_name.remove_prefix(kPrefix.size());
  }
  Json json;
  json.begin_object().field("event", "error").field("stage", failure.stage);
  json.field("code", static_cast<uint64_t>(failure.code)).field("name", short_name);
  json.field("message", failure.message).list("log", runtime_log());
  messages.send(json.end_object());
  return 1;
}

int run(int argc, char** argv) {
  // The runner ends with the process that wanted it, leaves no core file behind, and is the first to go
  // when a damaged program asks for all the memory there is.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::signal(SIGPIPE, SIG_IGN);

  Messages messages;
  if (!messages.open()) {
    std::fprintf(stderr, "The runner cannot use its standard streams: %s\n", std::strerror(errno));
    return 2;
  }
  executorch::runtime::register_pal(executorch::runtime::PalImpl::create(keep_log, __FILE__));
  executorch::runtime::runtime_init();
  send_hello(messages);
  Arguments arguments;
  const std::string wrong = parse_arguments(argc, argv, arguments);
  if (!wrong.empty()) {
    return fail(messages, Failure{"arguments", Error::InvalidArgument, wrong});
  }
  uint64_t peak_memory = memory_figure("/proc/self/status", "VmHWM");
  if (!arguments.probe) {
    Session session(messages, std::move(arguments));
    if (const auto failure = session.run()) {
      return fail(messages, *failure);
    }
    peak_memory = session.peak_memory();
  }
  Json json;
  json.begin_object().field("event", "done").field("peak_memory_bytes", peak_memory);
  messages.send(json.end_object());
  return 0;
}

} // namespace
} // namespace runner

int main(int argc, char** argv) {
  const int code = runner::run(argc, argv);
  // Static destructors of the backends have nothing to save.
  std::fflush(stderr);
  std::_Exit(code);
}
