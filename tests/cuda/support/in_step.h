// The threads of a block in step: each in turn, in ascending order, runs up to the next barrier.  For one_lane.h, and for
// kernels whose threads share tiles.  A thread has a stack of its own, made once per launch; a turn is a jump from one stack
// to the next, without a system call.
#pragma once
#include <csetjmp>
#include <memory>
#include <vector>
#include <ucontext.h>

namespace one_lane {

constexpr size_t STACK_BYTES = 64 << 10;
constexpr int END = 0;  // of the kernel, among the lines of barriers

struct Stack {
    std::unique_ptr<char[]> bytes{new char[STACK_BYTES]};
    jmp_buf place;  // where its thread waits
};

inline std::vector<Stack> stacks;
inline jmp_buf home;
inline ucontext_t starter, started;
inline void (*kernel_call)();
inline int meeting;  // the line at which the threads of the block wait
inline bool parted;  // whether one of them waits elsewhere

// Wait at a barrier until all threads of the block have come there: the next one has its turn.
__attribute__((noinline)) inline void wait(int line) {
    if (thread.x == 0) meeting = line;
    if (line != meeting) {
        parted = true;
        _longjmp(home, 1);
    }
    if (_setjmp(stacks[thread.x].place)) return;
    thread.x = thread.x + 1 < threads.x ? thread.x + 1 : 0;
    if (thread.x == 0 && line == END) _longjmp(home, 1);
    _longjmp(stacks[thread.x].place, 1);
}

inline void live() {
    if (!_setjmp(stacks[thread.x].place)) setcontext(&starter);
    for (;;) {  // block after block
        kernel_call();
        wait(END);
    }
}

// Make the stacks of a block's threads; a thread waits at its beginning.
inline void make_threads(void (*call)()) {
    kernel_call = call;
    stacks = std::vector<Stack>(threads.x);
    for (thread.x = 0; thread.x < threads.x; ++thread.x) {
        getcontext(&started);
        started.uc_stack.ss_sp = stacks[thread.x].bytes.get();
        started.uc_stack.ss_size = STACK_BYTES;
        started.uc_link = nullptr;
        makecontext(&started, live, 0);
        swapcontext(&starter, &started);
    }
}

// Run all threads of a block; whether they met at the same barriers.
inline bool run_threads() {
    parted = false;
    if (_setjmp(home)) return !parted;
    thread.x = 0;
    _longjmp(stacks[0].place, 1);
}

}  // namespace one_lane
