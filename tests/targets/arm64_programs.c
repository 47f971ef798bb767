// Preloaded into the shells of a stand-in device: programs for 64-bit Arm start under the emulator that
// STAND_IN_EMULATOR names, as they would by themselves on a device.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*Execute)(const char *, char *const[], char *const[]);

static int is_for_arm64(const char *path) {
  unsigned char head[20];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return 0;
  }
  const ssize_t count = read(file, head, sizeof head);
  close(file);
  return count == (ssize_t)sizeof head && memcmp(head, "\x7f"
                                                       "ELF\x02",
                                                 5) == 0 &&
         head[18] == 183 && head[19] == 0;
}

int execve(const char *path, char *const arguments[], char *const environment[]) {
  const Execute execute = (Execute)dlsym(RTLD_NEXT, "execve");
  const char *emulator = getenv("STAND_IN_EMULATOR");
  if (emulator == NULL || !is_for_arm64(path)) {
    return execute(path, arguments, environment);
  }
  size_t count = 0;
  while (arguments[count] != NULL) {
    ++count;
  }
  size_t variables = 0;
  while (environment[variables] != NULL) {
    ++variables;
  }
  char **words = calloc(count + 2, sizeof *words);
  char **kept = calloc(variables + 1, sizeof *kept);
  if (words == NULL || kept == NULL) {
    errno = ENOMEM;
    return -1;
  }
  words[0] = (char *)emulator;
  words[1] = (char *)path;
  for (size_t i = 1; i < count; ++i) {
    words[i + 1] = arguments[i];
  }
  size_t next = 0;
  for (size_t i = 0; i < variables; ++i) {
    if (strncmp(environment[i], "LD_PRELOAD=", 11) != 0) {
      kept[next++] = environment[i];
    }
  }
  return execute(emulator, words, kept);
}
