// C++: classes with bases, references, methods, templates, objects passed by
// address. The program prints "MEMBER OFFSET" of an object.
#include <cstddef>
#include <cstdio>

#define NOINLINE __attribute__((noinline, noclone, noipa))
#define USE(x) __asm__ volatile("" : : "m"(x) : "memory")
namespace net {
struct Base { int id; };
struct Mixin { long mixed; };
class Conn : public Base, public Mixin {
 public:
	const char *peer;
	static int count;
	enum class State : unsigned char { Idle, Busy = 9 };
	State state;
	virtual ~Conn() {}
	NOINLINE int send(const Conn &to, int &&flags);
};
int Conn::count;
struct Owner { int n; Owner(const Owner &o) : n(o.n) {} Owner(int n) : n(n) {} ~Owner() { USE(n); } };
NOINLINE int Conn::send(const Conn &to, int &&flags) { USE(to); USE(flags); return flags + id; }
NOINLINE int take(int a, Owner o, int b) { USE(a); USE(o); USE(b); return o.n; }
NOINLINE Owner give(int a) { USE(a); return Owner(a); }
template <typename T> NOINLINE T twice(T v, T *p) { USE(v); USE(p); return v + *p; }
}
extern "C" NOINLINE int root(net::Conn *c) { USE(c); return c->id; }

int main()
{
	net::Conn c;
	long l = 3;
	c.id = c.send(c, 3) + net::take(1, net::Owner(2), 3) + net::give(4).n + net::twice<long>(1, &l) + root(&c);
	char *at = (char *)&c;
	printf("id %td\nmixed %td\npeer %td\nstate %td\n", (char *)&c.id - at, (char *)&c.mixed - at, (char *)&c.peer - at, (char *)&c.state - at);
}
