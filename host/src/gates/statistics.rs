//! Statistics of latencies.
