package check

import (
	"bytes"
	"strings"
	"testing"
)

// The tree as Oracle's dtrace shows it with -xtree: before and after names and
// types are found.
func TestTree(t *testing.T) {
	const src = `syscall::read:entry
/pid != 1/
{
	self->n = arg2 + 3 * 4;
	this->s = strjoin(execname, "\t");
	a[pid, "k"] = curthread->comm[0] ? -self->n : (char)1;
	@q[execname] = quantize(self->n);
	trace(\x60jiffies);
}
`
	text := strings.NewReplacer(`\x60`, "`", "~", "(type=<-1> attr=[s/s/c] flags=0)")
	for _, tt := range []struct {
		pass int
		want string
	}{
		{treeParsed, `Parse tree (Pass 1):
  PROGRAM attr=[s/s/c]
    CLAUSE attr=[s/s/c]
      PDESC syscall::read:entry [0]
    CTXATTR [i/i/u]
    PREDICATE /
      OP2 != ~
        IDENT pid ~
        INT 0x1 (type=<int> attr=[s/s/c] flags=SIGN,COOK)
    /
    ACTION
      D EXPRESSION attr=[s/s/c]
        OP2 = ~
          OP2 -> ~
            IDENT self ~
            IDENT n ~
          OP2 + ~
            IDENT arg2 ~
            OP2 * ~
              INT 0x3 (type=<int> attr=[s/s/c] flags=SIGN,COOK)
              INT 0x4 (type=<int> attr=[s/s/c] flags=SIGN,COOK)
      D EXPRESSION attr=[s/s/c]
        OP2 = ~
          OP2 -> ~
            IDENT this ~
            IDENT s ~
          FUNC strjoin ~
            IDENT execname ~
          ,
            STRING "\t" (type=<string> attr=[s/s/c] flags=COOK,REF,DPTR)
      D EXPRESSION attr=[s/s/c]
        OP2 = ~
          OP2 [ ~
            IDENT a ~
            IDENT pid ~
          OP3 ~
            OP2 [ ~
              OP2 -> ~
                IDENT curthread ~
                IDENT comm ~
              INT 0x0 (type=<int> attr=[s/s/c] flags=SIGN,COOK)
          ?
            OP1 - ~
              OP2 -> ~
                IDENT self ~
                IDENT n ~
          :
            OP2 ( ~
              TYPE char
              INT 0x1 (type=<int> attr=[s/s/c] flags=SIGN,COOK)
      D EXPRESSION attr=[s/s/c]
        OP2 = ~
          OP2 [ ~
            IDENT @q ~
            IDENT execname ~
          FUNC quantize ~
            OP2 -> ~
              IDENT self ~
              IDENT n ~
      D PRODUCER attr=[s/s/c]
        FUNC trace ~
          IDENT \x60jiffies ~
Parse tree ends
`},
		{treeClause, `Parse tree (Pass 2):
  CLAUSE attr=[s/s/c]
    PDESC syscall::read:entry [0]
  CTXATTR [u/u/c]
  PREDICATE /
    OP2 != (type=<int> attr=[s/s/c] flags=SIGN,COOK)
      VARIABLE pid (type=<pid_t> attr=[s/s/c] flags=SIGN,COOK,LVAL)
      INT 0x1 (type=<int> attr=[s/s/c] flags=SIGN,COOK)
  /
  ACTION
    D EXPRESSION attr=[s/s/c]
      OP2 = (type=<int64_t> attr=[s/s/c] flags=SIGN,COOK,WRITE)
        VARIABLE (normally-assigned) self->n (type=<int64_t> attr=[s/s/c] flags=SIGN,COOK,LVAL,WRITE)
        OP2 + (type=<int64_t> attr=[s/s/c] flags=SIGN,COOK)
          VARIABLE arg2 (type=<int64_t> attr=[s/s/c] flags=SIGN,COOK,LVAL)
          INT 0xc (type=<int> attr=[s/s/c] flags=SIGN,COOK)
    D EXPRESSION attr=[s/s/c]
      OP2 = (type=<string> attr=[s/s/c] flags=COOK,REF,WRITE,DPTR)
        VARIABLE (normally-assigned) this->s (type=<string> attr=[s/s/c] flags=COOK,REF,LVAL,WRITE,DPTR)
        FUNC strjoin (type=<string> attr=[s/s/c] flags=COOK,REF,DPTR)
          VARIABLE execname (type=<string> attr=[s/s/c] flags=COOK,REF,LVAL,DPTR)
        ,
          STRING "\t" (type=<string> attr=[s/s/c] flags=COOK,REF,DPTR)
    D EXPRESSION attr=[s/p/c]
      OP2 = (type=<int64_t> attr=[s/p/c] flags=SIGN,COOK,WRITE)
        VARIABLE (normally-assigned) a (type=<int64_t> attr=[s/s/c] flags=SIGN,COOK,LVAL,WRITE)
        [
          VARIABLE pid (type=<pid_t> attr=[s/s/c] flags=SIGN,COOK,LVAL)
        ,
          STRING "k" (type=<string> attr=[s/s/c] flags=COOK,REF,DPTR)
        ]
        OP3 (type=<int64_t> attr=[s/p/c] flags=SIGN,COOK)
          OP2 [ (type=<char> attr=[s/p/c] flags=SIGN,COOK,LVAL)
            OP2 -> (type=<char [16]> attr=[s/p/c] flags=COOK,REF)
              VARIABLE curthread (type=<struct task_struct *> attr=[s/p/c] flags=COOK,LVAL)
              IDENT comm ~
            INT 0x0 (type=<int> attr=[s/s/c] flags=SIGN,COOK)
        ?
          OP1 - (type=<int64_t> attr=[s/s/c] flags=SIGN,COOK)
            VARIABLE (normally-assigned) self->n (type=<int64_t> attr=[s/s/c] flags=SIGN,COOK,LVAL,WRITE)
        :
          INT 0x1 (type=<char> attr=[s/s/c] flags=SIGN,COOK)
    D EXPRESSION attr=[s/s/c]
      AGGREGATE @q attr=[s/s/c] [
        VARIABLE execname (type=<string> attr=[s/s/c] flags=COOK,REF,LVAL,DPTR)
      ]
      =
        FUNC quantize (type=<<DYN>> attr=[s/s/c] flags=SIGN,COOK,REF)
          VARIABLE (normally-assigned) self->n (type=<int64_t> attr=[s/s/c] flags=SIGN,COOK,LVAL,WRITE)
    D PRODUCER attr=[p/p/u]
      FUNC trace (type=<void> attr=[p/p/u] flags=SIGN,COOK)
        SYMBOL \x60jiffies (type=<volatile unsigned long> attr=[p/p/u] flags=COOK,LVAL)
Parse tree ends
`},
	} {
		var b bytes.Buffer
		if _, _, e := checkText(t, text.Replace(src), func(o *Options, _ *fakeEnv) { o.Tree, o.TreeOut = tt.pass, &b }); e != nil {
			t.Fatal(e)
		}
		if got, want := b.String(), text.Replace(tt.want); got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	}
}
