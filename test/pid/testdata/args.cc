// As args.c, in C++.
#include <cstdio>
#include <string>

#define NOINLINE __attribute__((noinline, noclone))
namespace net {
struct Base { int id; };
struct Mixin { long mixed; };
class Conn : public Base, public Mixin {
 public:
	std::string name;
	virtual ~Conn() {}
	NOINLINE int send(const Conn &to, int &flags);
};
NOINLINE int Conn::send(const Conn &to, int &flags)
{
	printf("P send %d %ld %s %s %d\n", id, mixed, name.c_str(), to.name.c_str(), flags);
	return flags + id;
}
NOINLINE int take(Conn c, int n)
{
	printf("P take %d %d\n", c.id, n);
	return n;
}
}

int main()
{
	net::Conn a, b;
	a.name = "alpha", b.name = "a name that is longer than what a string holds within itself";
	for (int i = 0; i < 3; i++) {
		a.id = 10 + i, a.mixed = -i, b.id = 20;
		int flags = i * 3;
		a.send(b, flags);
		net::take(a, i);
	}
}
