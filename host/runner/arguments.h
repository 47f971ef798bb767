// The command line of the runner.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

// One `--input DTYPE:SIZES:DIM_ORDER:PATH`; sizes and dimension order are comma-separated, an empty
// order means row major, empty sizes mean a scalar. The file holds row-major elements in any case.
struct InputArgument {
  std::string dtype;
  std::vector<int32_t> sizes;
  std::vector<uint8_t> dim_order;
  std::string path;
};

struct Arguments {
  std::string model;
  std::string method;
  std::vector<InputArgument> inputs;
  std::string output_dir;
  std::string trace;
  uint32_t threads = 1;
  uint32_t warmup = 0;
  // Warming goes on beyond `warmup` while times fall, up to so many runs.
  uint32_t warmup_limit = 0;
  uint32_t iterations = 0;
  uint32_t trace_iterations = 0;
  uint64_t max_measure_ms = std::numeric_limits<uint64_t>::max();
  bool probe = false;
};

inline bool parse_number(std::string_view text, uint64_t limit, uint64_t& number) {
  if (text.empty() || text.size() > 20) {
    return false;
  }
  uint64_t parsed = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      return false;
    }
    const auto digit = static_cast<uint64_t>(c - '0');
    if (parsed > (std::numeric_limits<uint64_t>::max() - digit) / 10) {
      return false;
    }
    parsed = parsed * 10 + digit;
  }
  number = parsed;
  return parsed <= limit;
}

template <typename T>
bool parse_list(std::string_view text, std::vector<T>& items) {
  items.clear();
  while (!text.empty()) {
    const size_t comma = text.find(',');
    uint64_t number = 0;
    if (!parse_number(text.substr(0, comma), static_cast<uint64_t>(std::numeric_limits<T>::max()), number)) {
      return false;
    }
    items.push_back(static_cast<T>(number));
    if (comma == std::string_view::npos) {
      break;
    }
    text.remove_prefix(comma + 1);
    if (text.empty()) {
      return false;
    }
  }
  return true;
}

inline bool parse_input(std::string_view text, InputArgument& input) {
  std::string_view parts[3];
  for (auto& part : parts) {
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) {
      return false;
    }
    part = text.substr(0, colon);
    text.remove_prefix(colon + 1);
  }
  input.dtype = std::string(parts[0]);
  input.path = std::string(text);
  if (input.dtype.empty() || input.path.empty() || !parse_list(parts[1], input.sizes) ||
      !parse_list(parts[2], input.dim_order)) {
    return false;
  }
  if (input.dim_order.empty()) {
    for (size_t i = 0; i < input.sizes.size(); ++i) {
      input.dim_order.push_back(static_cast<uint8_t>(i));
    }
  }
  if (input.dim_order.size() != input.sizes.size()) {
    return false;
  }
  std::vector<bool> seen(input.sizes.size(), false);
  for (const uint8_t dim : input.dim_order) {
    if (dim >= seen.size() || seen[dim]) {
      return false;
    }
    seen[dim] = true;
  }
  return true;
}

// Returns an empty string, or what is wrong.
inline std::string parse_arguments(int argc, char** argv, Arguments& out) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--probe") {
      out.probe = true;
      continue;
    }
    if (i + 1 >= argc) {
      return "`" + std::string(flag) + "` is unknown or lacks its value";
    }
    const std::string_view value = argv[++i];
    const std::string wrong = "`" + std::string(value) + "` is no value for `" + std::string(flag) + "`";
    uint64_t number = 0;
    const auto count = [&](uint32_t& target) {
      const bool ok = parse_number(value, std::numeric_limits<uint32_t>::max(), number);
      target = static_cast<uint32_t>(number);
      return ok;
    };
    bool ok = true;
    if (flag == "--model") {
      out.model = value;
    } else if (flag == "--method") {
      out.method = value;
    } else if (flag == "--input") {
      out.inputs.emplace_back();
      ok = parse_input(value, out.inputs.back());
    } else if (flag == "--output-dir") {
      out.output_dir = value;
    } else if (flag == "--trace") {
      out.trace = value;
    } else if (flag == "--threads") {
      ok = count(out.threads) && out.threads >= 1 && out.threads <= 1024;
    } else if (flag == "--warmup") {
      ok = count(out.warmup);
    } else if (flag == "--warmup-limit") {
      ok = count(out.warmup_limit);
    } else if (flag == "--iterations") {
      ok = count(out.iterations);
    } else if (flag == "--trace-iterations") {
      ok = count(out.trace_iterations);
    } else if (flag == "--max-measure-ms") {
      ok = parse_number(value, std::numeric_limits<uint64_t>::max(), out.max_measure_ms);
    } else {
      return "`" + std::string(flag) + "` is unknown";
    }
    if (!ok) {
      return wrong;
    }
  }
  if (out.model.empty() && !out.probe) {
    return "`--model` is missing";
  }
  return "";
}

} // namespace runner
