package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godtrace/internal/syntax"
)

// Every file test/d/err.<TAG>.<what>.d is refused with its tag.
func TestErrorFiles(t *testing.T) {
	files, err := filepath.Glob("../../test/d/err.*.d")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		tag := strings.Split(name, ".")[1]
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(tag, "D_PROC_") || strings.HasPrefix(string(text), "/*") {
			continue // needs a process or options: the command's tests, beside the files
		}
		t.Run(name, func(t *testing.T) {
			_, _, e := checkText(t, string(text), nil)
			if e == nil {
				t.Fatalf("accepted, want %s", tag)
			}
			if e.Tag != tag {
				t.Fatalf("%s: %v, want %s", e.Tag, e, tag)
			}
			if e.Pos.Line == 0 && !strings.HasPrefix(tag, "D_EMPTY") {
				t.Errorf("no position: %v", e)
			}
			if _, ok := syntax.LookupCode(e.Tag); !ok {
				t.Errorf("%s is not in the list of tags", e.Tag)
			}
		})
	}
}

// Programs that are right.
func TestAccepted(t *testing.T) {
	for _, src := range []string{
		`BEGIN { trace("hello"); exit(0); }`,
		`BEGIN /pid == $target/ { trace($target); }`, // without a process: 0
		`inline int OPT = 1; inline int NOT = !OPT;
		 BEGIN { OPT ? printf("%d", pid) : 1; NOT ? nothing() : OPT & 1 ? trace(1) : 1; (OPT ? (@[1] = count()) : 1); OPT ? @[2] = count() : 1; }`,
		"# 1 \"stddef.h\" 1\ntypedef unsigned long size_t; typedef signed char int8_t;\n# 1 \"other.h\" 1\ntypedef unsigned long size_t;\n" +
			"# 2 \"\" 2\nBEGIN { trace((size_t)1); trace((int8_t)-1); }",
		`syscall::read:entry /execname == "cat"/ { self->ts = timestamp; }
		 syscall::read:return /self->ts/ { @t[execname, probefunc] = quantize(timestamp - self->ts); self->ts = 0; }
		 END { printa("%s %s %@d\n", @t); trunc(@t, 10); normalize(@t, 1000); denormalize(@t); clear(@t); }`,
		`syscall:::entry { @[probefunc] = count(); }`,
		`syscall:::entry { @ = count(); } END { printa(@); }`,
		`int x; string s; self int y; this char *z; int a[string, int]; self string names[int];
		 BEGIN { x = 1; s = "a"; self->y = 2; this->z = 0; a["x", 1] = 3; self->names[1] = "q"; trace(a["x", 2]); }`,
		`BEGIN { printf("%d %s %x %c %5.2s\n", pid, execname, arg0, 'a', probefunc); }`,
		`BEGIN { trace(curthread->comm); trace(curthread->parent->parent->pid); trace(stringof(curthread->comm)); }`,
		`BEGIN /curthread->comm == "init" && "a" < execname/ { trace(curthread->in_execve); trace(curthread->st == TASK_DEAD); }`,
		"BEGIN { trace(`jiffies); trace(`init_task.pid); trace(&`init_task); trace(vmlinux`per_cpu_offset[3]); trace((uint64_t)&`vfs_read); }",
		`inline int N = 3 + 4; int arr[N]; BEGIN { arr[1] = 2; trace(arr[1] + N); }`,
		`inline string f[int a, string b] = a ? b : "none"; BEGIN { trace(f[1, execname]); }`,
		`struct s { int a; string b; }; translator struct s < struct task_struct *T > { a = T->pid; b = T->comm; };
		 BEGIN { trace(xlate <struct s> (curthread).a); trace(xlate <struct s *> (curthread)->b); this->s = xlate <struct s> (curthread); trace(this->s.a); }`,
		`struct s { int a; }; translator struct s < struct task_struct *T > { a = T->pid; };
		 inline struct s *cur = xlate <struct s *> (curthread); BEGIN { trace(cur->a); }`,
		`syscall::read:entry { trace(args[0]); trace(args[2]); this->b = args[1]; trace(copyinstr((uintptr_t)args[1])); }`,
		`proc:::exec { printf("%s", args[0]); trace(args[0] == "x"); }`,
		`fbt::vfs_read:entry { trace(args[0]->f_pos); print(args[0]); }`,
		`BEGIN { @a[stack(5), ustack(), sym(arg0), usym(arg1)] = count(); stack(); ustack(3, 0); jstack(); }`,
		`BEGIN { @l = lquantize(arg0, 0, 100, 10); @ll = llquantize(arg0, 10, 0, 6, 20); @m = min(arg0); @x = max(arg0); @v = avg(arg0); @d = stddev(arg0); @s = sum(arg0); }`,
		`BEGIN { self->spec = speculation(); } BEGIN { speculate(self->spec); printf("x"); } END /self->spec/ { commit(self->spec); } END { discard(self->spec); }`,
		`struct s { int a; char c[8]; struct { int b; } d; };
		 BEGIN { p = (struct s *)alloca(32); bcopy(execname, p->c, 8); bcopy(execname, &p->d.b, 4); copyinto(arg0, 4, (void *)&p[0].c[2]);
			self->q = p; bcopy("abc", self->q + 0, 4); p->a = 3; p->d.b = 4; p->c[1] = 'x'; this->r = pid ? p : p; bcopy("x", this->r, 2); }`,
		`BEGIN { if (pid == 1) { trace(1); } else if (pid == 2) trace(2); else { x = 3; } }`,
		`BEGIN { x = alloca(10); bcopy(copyin(arg0, 4), x, 4); copyinto(arg0, 4, x); trace(strlen(execname)); trace(strjoin(execname, "x")); trace(strtok(0, ",")); trace(strtok(NULL, ",")); trace(substr("abc", 1)); trace(lltostr(12)); trace(rand()); trace(index("a", "b", 1)); }`,
		`BEGIN { x++; y = x--; z += 0 ? 1 : 2; }` + "", // see below
		`BEGIN { tracemem(curthread, 16); tracemem(arg0, 16, arg1); raise(9); stop(); chill(1); panic(); system("ls %d", pid); freopen("/tmp/x"); freopen(""); ftruncate(); setopt("quiet"); setopt("a", "b"); }`,
		`BEGIN { copyout("a", arg0, 1); copyoutstr(execname, arg0, 3); }`,
		`BEGIN { a[1, 2, 3, 4, 5, 6, 7, 8] = 1; @[1, 2, 3, 4, 5, 6, 7, 8, 9] = count(); }`,
		`BEGIN { trace(uregs[3]); trace(sizeof (struct task_struct)); trace(sizeof (int)); trace(offsetof(struct task_struct, comm)); trace((char)300); trace(-1 >> 1); trace(~0); trace(!5); }`,
		`BEGIN { trace($pid); trace($uid); }`,
		`#pragma D option quiet
		#pragma D attributes Stable/Stable/Common foo
		#pragma D binding "1.2" foo
		inline int foo = 3; BEGIN { trace(foo); }`,
		`provider myprov { probe one(int a, string b) : (string b, int a); probe two__three(); };`,
		`BEGIN, END, tick-1s { trace(probename); }`,
		`enum e { A, B = 5, C }; enum e v; BEGIN { v = B; trace(v == C); trace(A + C); }`,
		`typedef struct node { struct node *next; int v:3; int w:5; } node_t; node_t n; node_t *p; BEGIN { n.v = 1; p = &n == 0 ? 0 : 0; }` + "",
		`BEGIN { trace(execname[0]); trace("abc"[1]); this->s = execname; trace(this->s + 1); }`,
		`BEGIN { this->p = (struct task_struct *)arg0; trace(this->p[1].pid); trace(*&this->p->pid); trace((&this->p->tasks)->next); }`,
		`BEGIN { printf("%k %a %A", stack(), sym(arg0), usym(arg1)); this->st = stack(3); }`,
		`struct s { int a; }; translator struct s < int I > { a = I; }; inline struct s *t = xlate <struct s *> (pid); BEGIN { trace(t); trace((int64_t)t); }`,
		`BEGIN { self->a[1, "x"] = 3; trace(self->a[2, "y"]); }`,
		`BEGIN { trace(1 ? 2 : 3); trace(pid ? "a" : execname); trace((1, 2)); }`,
		`BEGIN { @a[1] = count(); @b[2] = sum(3); printa("%d %@d %@d\n", @a, @b); printa(@a, @b); printa(@a[1]); }`,
	} {
		if strings.Contains(src, "z += 0") || strings.Contains(src, "p = &n") {
			continue // refused, by the tests of errors
		}
		if _, _, e := checkText(t, src, nil); e != nil {
			t.Errorf("%s\n%s %v", src, e.Tag, e)
		}
	}
}

// Words of messages, from the manuals and the compilers of illumos and Oracle.
func TestMessages(t *testing.T) {
	for _, tt := range []struct{ src, tag, msg string }{
		{`BEGIN { pid ? printf("%d", pid) : 1; }`, "D_OP_ACT", "action cannot be used in a conditional context"},
		{`typedef unsigned long size_t; BEGIN {}`, "D_DECL_IDRED", "typedef redeclared: size_t"},
		{`nosuch:::x { trace(1); }`, "D_PDESC_ZERO", "probe description nosuch:::x does not match any probes"},
		{`BEGIN { trace(foo); }`, "D_IDENT_UNDEF", "failed to resolve foo: Unknown variable name"},
		{`BEGIN { trace(self->foo); }`, "D_VAR_UNDEF", "self->foo has not yet been declared or assigned"},
		{`BEGIN { trace(); }`, "D_PROTO_LEN", "trace( ) prototype mismatch: 0 args passed, 1 expected"},
		{`BEGIN { print(); }`, "D_PROTO_LEN", "print( ) prototype mismatch: 0 args passed, 1 expected"},
		{`BEGIN { trace(strlen(1)); }`, "D_PROTO_ARG", "strlen( ) argument #1 is incompatible with prototype:\n\tprototype: char *\n\t argument: int"},
		{`BEGIN { x = 1; x = "a"; }`, "D_OP_INCOMPAT", `operands have incompatible types: "int" = "string"`},
		{`BEGIN { @a = count(); @a = sum(1); }`, "D_AGG_REDEF", "aggregation redefined: @a\n\t current: @a = sum( )\n\tprevious: @a = count( ) : line 1"},
		{`BEGIN { @a[1] = count(); @a["x"] = count(); }`, "D_PROTO_ARG", "@a[ ] key #1 is incompatible with prototype:\n\tprototype: int\n\t      key: string"},
		{`BEGIN { @[1] = count(); @[1, 2] = count(); }`, "D_PROTO_LEN", "@_[ ] prototype mismatch: 2 keys passed, 1 expected"},
		{`BEGIN { trace(curthread->nope); }`, "D_TYPE_MEMBER", "nope is not a member of struct task_struct"},
		{`syscall:::entry { trace(args[0]); }`, "D_ARGS_MULTI", "args[ ] may not be referenced because probe description syscall:::entry matches an unstable set of probes"},
		{`syscall::read:entry { trace(args[7]); }`, "D_ARGS_IDX", "index 7 is out of range for syscall::read:entry args[ ]"},
		{`BEGIN { trace($nosuch); }`, "D_MACRO_UNDEF", "macro variable $nosuch is not defined"},
		{`BEGIN { trace($1); }`, "D_MACRO_UNDEF", "macro argument $1 is not defined"},
		{`BEGIN { x = 1 + printf("a"); }`, "D_OP_INCOMPAT", `operands have incompatible types: "int" + "void"`},
		{`BEGIN { x = printf("a"); }`, "D_CG_EXPR", "tracing function printf( ) may not be called from a D expression (D program context required)"},
		{`BEGIN { pid = 3; }`, "D_OP_WRITE", "operator = can only be applied to a writable variable"},
		{`BEGIN { breakpoint(); }`, "D_FUNC_UNDEF", "breakpoint( ) is not available on Linux: Linux has no kernel debugger that a probe may enter; use stop() for processes, stack() for the kernel"},
		{`int pid;`, "D_DECL_IDRED", "built-in identifier redeclared: pid"},
		{`int x; string x;`, "D_DECL_IDRED", "identifier redeclared: x\n\t current: scalar string\n\tprevious: scalar int"},
		{`BEGIN { printf("%d"); }`, "D_PRINTF_ARG_PROTO", "printf( ) prototype mismatch: conversion #1 (%d) is missing a corresponding value argument"},
		{`#pragma D nosuch
BEGIN { }`, "D_PRAGMA_INVAL", "invalid D pragma: nosuch"},
		{`BEGIN { x = (long short)0; }`, "D_UNKNOWN", "failed to resolve type short long : Unknown type name"},
		{`unsigned signed int x;`, "D_UNKNOWN", "failed to resolve type signed unsigned int: Unknown type name"},
		{"BEGIN { trace(sizeof(`)); }", "D_IDENT_UNDEF", "failed to resolve `: Unknown symbol name"},
		{"BEGIN { trace(vmlinux`); }", "D_IDENT_UNDEF", "failed to resolve vmlinux`: Unknown symbol name"},
		{`BEGIN { a[1, 2, 3, 4, 5, 6, 7, 8, 9] = 1; }`, "", "Insufficient tuple registers to generate code"},
		{`enum e { a = 1, a = 2 };`, "D_UNKNOWN", "failed to define enumerator 'a': Duplicate member, enumerator, or variable name"},
	} {
		_, _, e := checkText(t, tt.src, nil)
		switch {
		case e == nil:
			t.Errorf("%s: accepted", tt.src)
		case e.Tag != tt.tag || e.Msg != tt.msg:
			t.Errorf("%s:\n got %s %q\nwant %s %q", tt.src, e.Tag, e.Msg, tt.tag, tt.msg)
		}
	}
}

// The lines of errors, where they are not those of the words they are about.
func TestLines(t *testing.T) {
	for _, tt := range []struct {
		src, tag string
		line     int
	}{
		// The operator is complete when the / is known to end the predicate.
		{"BEGIN\n/\"a\" & \"b\"/\n{ }", "D_OP_INT", 3},
		{"BEGIN\n/\"a\" & \"b\" || 1/\n{ }", "D_OP_INT", 2},
		// Of several, the first is named.
		{"#pragma D attributes Stable/Stable/Common a\n#pragma D attributes Stable/Stable/Common b\n" +
			"#pragma D attributes Stable/Stable/Common c\n#pragma D attributes Stable/Stable/Common d\nBEGIN { }", "D_PRAGMA_UNUSED", 1},
		// A variable is known to have two natures when its clause is.
		{"BEGIN { a = (char *)arg0; }\nBEGIN\n{\n\ta = (char *)alloca(1);\n}", "D_ALLOCA_INCOMPAT", 2},
	} {
		_, _, e := checkText(t, tt.src, nil)
		switch {
		case e == nil:
			t.Errorf("%s: accepted", tt.src)
		case e.Tag != tt.tag || e.Pos.Line != tt.line:
			t.Errorf("%s:\n got %s on line %d, want %s on line %d", tt.src, e.Tag, e.Pos.Line, tt.tag, tt.line)
		}
	}
}
