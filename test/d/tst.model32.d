/* flags: -q -32 -C */
/* What gcc -m32 gives. */
#if __SIZEOF_LONG__ != 4 || !defined(__i386__) || defined(__x86_64__)
#error these are not the macros of a 32-bit program
#endif

struct s { char c; long l; long long ll; char *p; char **q; };

BEGIN
{
	printf("%d %d %d\n", sizeof (struct s), offsetof(struct s, ll), offsetof(struct s, q));
	printf("%d %d %d %d\n", sizeof (long), sizeof (char *), sizeof (size_t), sizeof (int64_t));
	printf("%x %d\n", (unsigned long)-1, (long)0x1ffffffff);
	this->s = (struct s *)alloca(sizeof (struct s));
	this->s->l = 0x100000001;
	this->s->p = (char *)0xfffffffe;
	printf("%x %x %x\n", this->s->l, (uint64_t)this->s->p, (uint64_t)this->s->q);
	/* Values of D itself hold addresses of the kernel. */
	printf("%d %d\n", sizeof ((char *)0), ((uint64_t)curthread >> 48) == 0xffff);
	exit(0);
}
