// Callbacks of the C++ library, virtual calls, and what runs while an exception
// is on its way.
#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline)) void wait_for_byte() {
	char c;
	if (write(1, ".", 1) != 1 || read(0, &c, 1) != 1)
		_exit(0);
	sink = sink + c;
}

struct Shape {
	virtual ~Shape() {}
	virtual int area(int n) = 0;
};

struct Square : Shape {
	int side;
	Square(int s) : side(s) {}
	__attribute__((noinline)) int area(int n) override {
		std::vector<int> v{3, 1, 2};
		std::sort(v.begin(), v.end(), [&](int a, int b) {
			if (a == 1)
				wait_for_byte();
			return a < b;
		});
		return side * side + v[0] + n;
	}
};

struct Guard {
	~Guard() { wait_for_byte(); }
};

__attribute__((noinline)) int thrower(int n) {
	Guard g;
	if (n > 0)
		throw std::runtime_error("on its way " + std::to_string(n));
	return n;
}

__attribute__((noinline)) int catcher(std::function<int(int)> f) {
	try {
		return f(1);
	} catch (const std::exception &e) {
		wait_for_byte();
		return e.what()[0];
	}
}

static void work() {
	Square s(4);
	Shape *p = &s;
	std::map<std::string, int> m;
	m["a"] = p->area(1);
	m["b"] = catcher([&](int n) { return thrower(n) + m["a"]; });
	sink = sink + m["b"];
}

int main() {
	for (;;) {
		work();
		std::thread(work).join();
	}
}
