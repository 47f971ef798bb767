// What the machine was doing while a program ran: load, processor time, frequencies, temperatures, cooling.
//
// Everything is read from /proc and /sys. What a system does not let this process read is left out and
// named in `unreadable`; nothing here can fail a run.
#pragma once

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "messages.h"

namespace runner {

// More processors or sensors than these are not looked at.
constexpr int kMostProcessors = 256;
constexpr int kMostSensors = 128;

inline std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) {
    return std::nullopt;
  }
  return line;
}

inline std::optional<int64_t> number_in(const std::string& path) {
  const auto line = first_line(path);
  if (!line) {
    return std::nullopt;
  }
  char* end = nullptr;
  const long long number = std::strtoll(line->c_str(), &end, 10);
  if (end == line->c_str()) {
    return std::nullopt;
  }
  return number;
}

// Processor time of the whole machine since it started, in clock ticks.
struct MachineTime {
  uint64_t busy = 0;
  uint64_t stolen = 0;
};

inline std::optional<MachineTime> machine_time() {
  const auto line = first_line("/proc/stat");
  if (!line || line->rfind("cpu ", 0) != 0) {
    return std::nullopt;
  }
  std::istringstream words(line->substr(4));
  // user nice system idle iowait irq softirq steal
  uint64_t ticks[8] = {};
  for (auto& tick : ticks) {
    if (!(words >> tick)) {
      return std::nullopt;
    }
  }
  return MachineTime{ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6], ticks[7]};
}

// One look at the machine.
struct Reading {
  std::chrono::steady_clock::time_point when;
  std::optional<MachineTime> machine;
  uint64_t own_cpu_ns = 0;
  uint64_t own_switches = 0;
  std::optional<uint64_t> load_hundredths;
  std::vector<int64_t> frequencies_khz;
  std::vector<int64_t> limits_khz;
  std::set<std::string> governors;
  std::vector<std::pair<std::string, int64_t>> temperatures;
  std::vector<std::pair<std::string, int64_t>> cooling;

  static Reading now() {
    Reading reading;
    reading.when = std::chrono::steady_clock::now();
    reading.machine = machine_time();
    rusage usage = {};
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
      const auto nanoseconds = [](const timeval& time) {
        return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_usec) * 1'000;
      };
      reading.own_cpu_ns = nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
      reading.own_switches = static_cast<uint64_t>(usage.ru_nivcsw);
    }
    if (const auto line = first_line("/proc/loadavg")) {
      const double load = std::strtod(line->c_str(), nullptr);
      if (load >= 0 && load < 1e6) {
        reading.load_hundredths = static_cast<uint64_t>(load * 100 + 0.5);
      }
    }
    reading.read_processors();
    reading.read_sensors();
    return reading;
  }

  void write(Json& json) const {
    json.begin_object();
    if (load_hundredths) {
      json.field("load_hundredths", *load_hundredths);
    }
    json.list("frequencies_khz", frequencies_khz).list("limits_khz", limits_khz).list("governors", governors);
    sensors(json, "temperatures", temperatures);
    sensors(json, "cooling", cooling);
    json.end_object();
  }

 private:
  void read_processors() {
    for (int cpu = 0; cpu < kMostProcessors; ++cpu) {
      const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
      if (access(folder.c_str(), F_OK) != 0) {
        break;
      }
      if (const auto now = number_in(folder + "/cpufreq/scaling_cur_freq")) {
        frequencies_khz.push_back(*now);
      }
      if (const auto limit = number_in(folder + "/cpufreq/scaling_max_freq")) {
        limits_khz.push_back(*limit);
      }
      if (const auto governor = first_line(folder + "/cpufreq/scaling_governor")) {
        governors.insert(*governor);
      }
    }
  }

  void read_sensors() {
    const auto read = [](const std::string& prefix, const char* value, auto& into) {
      for (int sensor = 0; sensor < kMostSensors; ++sensor) {
        const std::string folder = "/sys/class/thermal/" + prefix + std::to_string(sensor);
        if (access(folder.c_str(), F_OK) != 0) {
          break;
        }
        const auto number = number_in(folder + value);
        if (number) {
          into.emplace_back(first_line(folder + "/type").value_or(""), *number);
        }
      }
    };
    read("thermal_zone", "/temp", temperatures);
    read("cooling_device", "/cur_state", cooling);
  }

  static void sensors(Json& json, const char* name, const std::vector<std::pair<std::string, int64_t>>& items) {
    json.key(name).begin_array();
    for (const auto& [type, number] : items) {
      json.begin_object().field("type", type).field("value", number).end_object();
    }
    json.end_array();
  }
};

// The event that tells what happened between two readings.
inline Json conditions_event(const Reading& before, const Reading& after) {
  Json json;
  json.begin_object().field("event", "conditions");
  const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(after.when - before.when).count();
  json.field("elapsed_ns", static_cast<uint64_t>(std::max<int64_t>(elapsed, 0)));
  json.field("processors", static_cast<uint64_t>(std::max<long>(sysconf(_SC_NPROCESSORS_ONLN), 1)));
  json.field("own_cpu_ns", after.own_cpu_ns - std::min(before.own_cpu_ns, after.own_cpu_ns));
  json.field("involuntary_switches", after.own_switches - std::min(before.own_switches, after.own_switches));
  if (before.machine && after.machine) {
    const auto ticks = static_cast<uint64_t>(std::max<long>(sysconf(_SC_CLK_TCK), 1));
    const auto between = [&](uint64_t first, uint64_t last) {
      return (last - std::min(first, last)) * (1'000'000'000 / ticks);
    };
    json.field("machine_busy_ns", between(before.machine->busy, after.machine->busy));
    json.field("stolen_ns", between(before.machine->stolen, after.machine->stolen));
  }
  json.key("before");
  before.write(json);
  json.key("after");
  after.write(json);
  std::vector<std::string> unreadable;
  const auto note = [&](bool readable, const char* what) {
    if (!readable) {
      unreadable.emplace_back(what);
    }
  };
  note(after.load_hundredths.has_value(), "load");
  note(after.machine.has_value(), "processor time");
  note(!after.frequencies_khz.empty(), "frequency");
  note(!after.governors.empty(), "governor");
  note(!after.temperatures.empty(), "temperature");
  json.list("unreadable", unreadable);
  json.end_object();
  return json;
}

} // namespace runner
