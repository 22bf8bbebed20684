// The host side of a kernel program: fibers, their scheduler, and a main that reads a launch from a file, runs it and
// writes the arrays back.  Arrays are allocated one by one and exactly as large as they are, so that ASan sees their
// ends.  The order in which fibers get their turn is the schedule: 0 ascending, 1 descending, else drawn anew each round.
#include "cuda_on_host.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" unsigned char __start_cuda_shared[], __stop_cuda_shared[];

namespace host {

Fiber* running;
dim3 grid, block;
uint3 block_index;
unsigned char* dynamic_shared;
int block_votes;
Kernel* kernels;

namespace {

enum class State { ready, at_barrier, at_warp, done };
constexpr size_t STACK_BYTES = 128 << 10;

struct Thread : Fiber {
    ucontext_t context;
    std::vector<char> stack;
    State state;
    void* fake_stack;
};

std::vector<Thread> threads;
ucontext_t scheduler;
void* scheduler_fake_stack;
const void* scheduler_stack;
size_t scheduler_stack_bytes;
const Kernel* launched;
std::vector<char*> arguments;
size_t dynamic_bytes;
uint64_t randomness;

Thread& current() { return static_cast<Thread&>(*running); }

// ASan keeps a shadow of every stack: it has to hear of each switch.
void enter(Thread& thread) {
    running = &thread;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&scheduler_fake_stack, thread.stack.data(), thread.stack.size());
#endif
    swapcontext(&scheduler, &thread.context);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(scheduler_fake_stack, nullptr, nullptr);
#endif
}

void leave(State state) {
    Thread& me = current();
    me.state = state;
#if defined(__SANITIZE_ADDRESS__)
    void** keep = state == State::done ? nullptr : &me.fake_stack;
    __sanitizer_start_switch_fiber(keep, scheduler_stack, scheduler_stack_bytes);
#endif
    swapcontext(&me.context, &scheduler);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(me.fake_stack, &scheduler_stack, &scheduler_stack_bytes);
#endif
}

void thread_main() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_bytes);
#endif
    launched->call(arguments.data());
    leave(State::done);
}

bool warp_is_complete(const Thread& waiting) {
    const unsigned base = waiting.number / WARP_LANES * WARP_LANES;
    bool complete = true;
    for (unsigned other = 0; other < WARP_LANES; ++other) {
        if (!(waiting.members >> other & 1)) continue;
        if (base + other >= threads.size() || threads[base + other].state == State::done)
            fail("a mask names a lane that is not there", waiting.line);
        const Thread& partner = threads[base + other];
        complete &= partner.state == State::at_warp && partner.line == waiting.line && partner.members == waiting.members;
    }
    return complete;
}

bool release_warps() {
    bool any = false;
    for (Thread& thread : threads) {
        if (thread.state != State::at_warp || !warp_is_complete(thread)) continue;
        const unsigned base = thread.number / WARP_LANES * WARP_LANES, members = thread.members;
        for (unsigned other = 0; other < WARP_LANES; ++other)
            if (members >> other & 1) threads[base + other].state = State::ready;
        any = true;
    }
    return any;
}

void release_block() {
    int line = -1, votes = 0;
    bool someone_left = false;
    for (const Thread& thread : threads) {
        if (thread.state == State::at_warp) fail("lanes that a mask names never come", thread.line);
        someone_left |= thread.state == State::done;
        if (thread.state == State::done) continue;
        if (line >= 0 && line != thread.line) fail("threads of a block wait at different barriers", thread.line);
        line = thread.line;
        votes += thread.vote;
    }
    if (someone_left) fail("a barrier after some threads of the block have finished", line);
    block_votes = votes;
    for (Thread& thread : threads) thread.state = State::ready;
}

void draw_turns(std::vector<unsigned>& turns) {
    for (size_t i = turns.size(); i > 1; --i) {
        randomness = randomness * 6364136223846793005ull + 1442695040888963407ull;
        std::swap(turns[i - 1], turns[(randomness >> 33) % i]);
    }
}

void start(Thread& thread, unsigned number) {
    thread.number = number;
    thread.index = {number % block.x, number / block.x % block.y, number / (block.x * block.y)};
    thread.state = State::ready;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.data();
    thread.context.uc_stack.ss_size = thread.stack.size();
    thread.context.uc_link = nullptr;
    makecontext(&thread.context, thread_main, 0);
}

// Past ASan, because its guard zones lie between the arrays.
__attribute__((no_sanitize("address"))) void poison_shared() {
    for (volatile unsigned char* place = __start_cuda_shared; place != __stop_cuda_shared; ++place) *place = 0xFF;
}

void run_block(int schedule) {
    poison_shared();
    if (dynamic_bytes) std::memset(dynamic_shared, 0xFF, dynamic_bytes);
    const unsigned count = (unsigned)threads.size();
    std::vector<unsigned> turns(count);
    for (unsigned i = 0; i < count; ++i) {
        start(threads[i], i);
        turns[i] = schedule == 1 ? count - 1 - i : i;
    }
    for (;;) {
        if (schedule > 1) draw_turns(turns);
        bool all_done = true;
        for (unsigned i : turns) {
            if (threads[i].state == State::ready) enter(threads[i]);
            all_done &= threads[i].state == State::done;
        }
        if (all_done) return;
        if (!release_warps()) release_block();
    }
}

struct Reader {
    FILE* file;
    void bytes(void* place, size_t count) {
        if (std::fread(place, 1, count, file) != count) fail("the launch file is too short", 0);
    }
    template <class T>
    T one() {
        T value;
        bytes(&value, sizeof value);
        return value;
    }
};

void run(const std::string& path) {
    Reader reader{std::fopen(path.c_str(), "rb")};
    std::string name(reader.one<uint64_t>(), ' ');
    reader.bytes(name.data(), name.size());
    for (dim3* size : {&grid, &block}) {
        size->x = reader.one<unsigned>();
        size->y = reader.one<unsigned>();
        size->z = reader.one<unsigned>();
    }
    dynamic_bytes = reader.one<uint64_t>();
    const int schedule = reader.one<int>();
    for (launched = kernels; launched && name != launched->name; launched = launched->next) {
    }
    if (!launched) fail("no such kernel", 0);
    if (reader.one<uint64_t>() != launched->count) fail("wrong number of arguments", 0);
    std::vector<std::pair<char*, uint64_t>> arrays;
    for (size_t i = 0; i < launched->count; ++i) {
        const bool is_array = reader.one<char>() != 0;
        const uint64_t size = reader.one<uint64_t>();
        char* content = new char[size];
        reader.bytes(content, size);
        if (is_array) {
            arrays.push_back({content, size});
            content = reinterpret_cast<char*>(new char*(content));
        }
        if ((is_array ? sizeof(char*) : size) != launched->sizes[i]) fail("an argument has the wrong size", (int)i);
        arguments.push_back(content);
    }
    dynamic_shared = dynamic_bytes ? new unsigned char[dynamic_bytes] : nullptr;
    threads = std::vector<Thread>((size_t)block.x * block.y * block.z);
    for (Thread& thread : threads) thread.stack.resize(STACK_BYTES);
    randomness = 0x9E3779B97F4A7C15ull * (uint64_t)(schedule + 1);
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                block_index = {x, y, z};
                run_block(schedule);
            }
    FILE* out = std::fopen((path + ".out").c_str(), "wb");
    for (const auto& [content, size] : arrays)
        if (std::fwrite(content, 1, size, out) != size) fail("the result cannot be written", 0);
    std::fclose(out);
}

}  // namespace

void fail(const char* what, int line) {
    std::fprintf(stderr, "CUDA fault: %s (line %d)\n", what, line);
    std::_Exit(3);
}

void wait_for_block(int line, bool vote) {
    running->line = line;
    running->vote = vote;
    leave(State::at_barrier);
}

void wait_for_warp(unsigned members, int line) {
    if (!(members >> lane() & 1)) fail("a lane is not in its own mask", line);
    running->members = members;
    running->line = line;
    leave(State::at_warp);
}

Fiber& neighbour(unsigned lane) { return threads[running->number / WARP_LANES * WARP_LANES + lane]; }

}  // namespace host

int main(int count, char** words) {
    if (count != 2) return 5;
    host::run(words[1]);
    std::_Exit(0);
}
