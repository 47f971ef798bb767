// What a rule gets of the C library: the operations that are single instructions.
#ifndef RULE_MATH_H
#define RULE_MATH_H

#define NAN __builtin_nan("")
#define INFINITY __builtin_inf()
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
static inline double fabs(double x) { return __builtin_fabs(x); }
static inline double sqrt(double x) { return __builtin_sqrt(x); }
static inline double floor(double x) { return __builtin_floor(x); }
static inline double ceil(double x) { return __builtin_ceil(x); }
static inline double trunc(double x) { return __builtin_trunc(x); }
static inline double fmin(double a, double b) { return b < a || isnan(a) ? b : a; }
static inline double fmax(double a, double b) { return b > a || isnan(a) ? b : a; }

#endif
