int a, *b, c[3], d[4][5], *e[6], (*f)[7];
unsigned long long int g;
string h[string, int, struct foo *];
self int i, *j;
this string k;
extern int l;
static const volatile char *const m;
struct foo { int a; unsigned b:3, :0, c:29; struct { int d; } e; union bar { int f; char g[4]; } h; struct foo *next; struct { int anon; }; };
struct foo n;
enum color { RED, GREEN = 5, BLUE = GREEN + 1, };
enum { ANON };
enum color o;
typedef struct foo foo_t;
typedef int (*handler_t)(int, foo_t *, ...), numbers_t[8];
foo_t p;
foo_t*q;
handler_t r;
int s(void), t(), u(int, char *name, foo_t);
int *(*v(int))(char);
char *(*(*w)[2])(int (*)(void));
int int_array[sizeof (foo_t) * 2 + 1];
userland struct foo *x;
union bar *y;
inline int ten = 10;
inline string label[int i] = i == 0 ? "none" : "some";
inline foo_t *z = (foo_t *)0;
translator struct bar < foo_t *F > { f = F->a; g = stringof(F->next); };
translator foo_t < int > { };
provider my_prov {
	probe start(int, char *, string);
	probe query__done(struct foo *f, int n) : (int n, foo_t f);
	probe none();
	probe none2(void);
};
#pragma D attributes Evolving/Evolving/Common provider my_prov provider
#pragma D binding "1.2" ten
#pragma D depends_on provider sched
struct kmod`task *aa;
_Bool bb;
unsigned cc;
long dd;
BEGIN { }
