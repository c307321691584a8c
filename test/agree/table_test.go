//go:build amd64

package agree_test

import (
	"fmt"
	"strings"
	"testing"

	"godtrace/internal/compile"
	"godtrace/internal/probe"
	"godtrace/internal/testkernel"
	"godtrace/test/meaning"
)

// The tables below are programs that are fired many times: firing n takes the
// operands number n/size and n%size of an associative array.

// fire compiles the program and fires its probe fuzz:::u on both engines.
func fire(t *testing.T, src string, times, strsize int) {
	t.Helper()
	testkernel.RequireRoot(t)
	if _, guest := testkernel.InVM(); guest {
		times = max(times/10, min(times, 40))
	}
	env := meaning.NewEnv()
	env.AddProbe(probe.Desc{Provider: "fuzz", Name: "u"})
	p, err := meaning.Compile(src, env, compile.Options{StrSize: strsize})
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	want, err := interpret(p, times, true)
	if err != nil {
		t.Fatal(err)
	}
	got, err := execute(p, times, true)
	if err != nil {
		t.Fatalf("%v%s", err, logTail(err))
	}
	if got.drops != "" {
		t.Errorf("drops: %s", got.drops)
	}
	if len(want.output) < 10*times {
		t.Errorf("%d firings printed only %d bytes", times, len(want.output))
	}
	keep(src, got, want)
	compare(t, t.Name(), got, want)
}

// operands declares the operands and picks those of the firing: a, b; s, r.
func operands() (string, int) {
	var b strings.Builder
	b.WriteString("int n;\nlong v[int];\nlong a;\nlong b;\nBEGIN\n{\n")
	for i, e := range edges {
		fmt.Fprintf(&b, "\tv[%d] = %s;\n\tv[%d] = -%s;\n", 2*i, e, 2*i+1, e)
	}
	size := 2 * len(edges)
	fmt.Fprintf(&b, "}\nfuzz:::u { a = v[n / %d]; b = v[n %% %d]; n++; }\n", size, size)
	return b.String(), size
}

func TestOperators(t *testing.T) {
	head, size := operands()
	for _, op := range []string{"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "^^"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			// Conversions of both operands, the operation in their common type,
			// and the result in each: all but the 8-bit ones, which C promotes.
			var exprs []string
			for i, x := range intTypes {
				for k, y := range intTypes {
					if (i+k)%2 == 1 && i > 1 && k > 1 {
						continue // half of the larger pairs
					}
					l, r := "("+x+")a", "("+y+")b"
					switch op {
					case "/", "%":
						exprs = append(exprs, fmt.Sprintf("(%s ? %s %s %s : 0)", r, l, op, r))
					case "<<", ">>":
						exprs = append(exprs, fmt.Sprintf("%s %s (%s & 31)", l, op, r))
					default:
						exprs = append(exprs, fmt.Sprintf("(%s %s %s)", l, op, r))
					}
				}
			}
			fire(t, head+table(exprs, "%d"), min(size*size, 700), 0)
		})
	}
}

func TestUnary(t *testing.T) {
	head, size := operands()
	var exprs []string
	for _, x := range intTypes {
		for _, op := range []string{"-", "~", "!", "+"} {
			exprs = append(exprs, fmt.Sprintf("%s(%s)b", op, x))
		}
		for _, y := range intTypes {
			exprs = append(exprs, fmt.Sprintf("(%s)(%s)b", y, x))
		}
	}
	fire(t, head+table(exprs, "%d"), size, 0)
}

// TestAssign has every compound assignment to every type of variable of every class.
func TestAssign(t *testing.T) {
	head, size := operands()
	for _, class := range []string{"", "self ", "this "} {
		t.Run(class, func(t *testing.T) {
			decl, exprs := "", []string{}
			for i, x := range intTypes {
				v := fmt.Sprintf("x%d", i)
				decl += class + x + " " + v + ";\n"
				if class != "" {
					v = strings.TrimSpace(class) + "->" + v
				}
				exprs = append(exprs, fmt.Sprintf("(%s = a)", v))
				for _, op := range []string{"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"} {
					y := "b"
					switch op {
					case "/", "%":
						y = "b | 1"
					case "<<", ">>":
						y = "b & 63"
					}
					exprs = append(exprs, fmt.Sprintf("(%s %s= %s)", v, op, y), v)
				}
				exprs = append(exprs, v+"++", "++"+v, v+"--", "--"+v, v)
			}
			fire(t, decl+head+table(exprs, "%d"), size*4, 0)
		})
	}
}

// table prints the expressions, a dozen a clause.
func table(exprs []string, conv string) string {
	var b strings.Builder
	for len(exprs) > 0 {
		n := min(12, len(exprs))
		fmt.Fprintf(&b, "fuzz:::u { printf(\"%s\\n\", %s); }\n", strings.TrimSpace(strings.Repeat(conv+" ", n)), strings.Join(exprs[:n], ", "))
		exprs = exprs[n:]
	}
	return b.String()
}

// TestAggregations has every aggregating function over all operands.
func TestAggregations(t *testing.T) {
	head, size := operands()
	for _, f := range []string{
		"count()", "sum(b)", "min(b)", "max(b)", "avg(b)", "stddev(b)", "quantize(b)", "quantize(b, a)",
		"lquantize(b, 0, 100, 10)", "lquantize(b, -50, 50)", "lquantize(b, -1000, 70000, 1000)", "lquantize(b, 1, 256, 7, a)", "lquantize(b, -3, -1)",
		"llquantize(b, 10, 0, 6, 20)", "llquantize(b, 2, 0, 62, 2)", "llquantize(b, 3, 2, 10, 9)", "llquantize(b, 10, 1, 18, 10)", "llquantize(b, 10, 0, 4, 10, a)", "llquantize(b, 4, 0, 5, 2)",
	} {
		t.Run(f, func(t *testing.T) {
			fire(t, head+"fuzz:::u { printf(\"firing %d\\n\", n); @a = "+f+"; @k[(int)a & 1, probename] = "+f+"; }\n", 4*size, 0)
		})
	}
}

// TestStrings has every subroutine of strings over all pairs of texts.
func TestStrings(t *testing.T) {
	more := []string{"b", "aaa", "//", "./", "/a", "a/", "../..", "/.", "/..", "a.b", "[1, 2, {\\\"k\\\": \\\"v\\\"}]", "-9223372036854775808", "99999999999999999999", "+7", "0", " \\t-1", "ff", "Zz9"}
	all := append(append([]string{}, texts...), more...)
	var b strings.Builder
	b.WriteString("int n;\nint i;\nstring t[int];\nthis string s;\nthis string r;\nBEGIN\n{\n")
	for i, s := range all {
		fmt.Fprintf(&b, "\tt[%d] = \"%s\";\n", i, s)
	}
	fmt.Fprintf(&b, "}\nfuzz:::u { i = n %% %d - 5; this->s = t[n / %d]; this->r = t[n %% %d]; n++; printf(\"%%d\\n\", n); }\n", len(all), len(all), len(all))
	one := []string{}
	for _, f := range []string{"basename(%)", "dirname(%)", "cleanpath(%)", "tolower(%)", "toupper(%)", "lltostr(strlen(%))", "substr(%, i)", "substr(%, i, 3)", "substr(%, i, -i)", "substr(%, -i, i)", "strjoin(%, this->r)"} {
		one = append(one, strings.Replace(f, "%", "this->s", 1))
	}
	b.WriteString(table(one, "[%s]"))
	nums := []string{}
	for _, f := range []string{"index(%)", "index(%, i)", "rindex(%)", "rindex(%, i)"} {
		nums = append(nums, strings.Replace(f, "%", "this->s, this->r", 1))
	}
	for _, base := range []string{"", ", 2", ", 8", ", 10", ", 16", ", 36"} {
		nums = append(nums, "strtoll(this->s"+base+")")
	}
	for _, op := range []string{"==", "!=", "<", "<=", ">", ">="} {
		nums = append(nums, "this->s "+op+" this->r")
	}
	b.WriteString(table(nums, "%d"))
	// What may be NULL, one a clause: the fault of one is not that of the next.
	for _, f := range []string{"strstr(this->s, this->r)", "strchr(this->s, 'a')", "strrchr(this->s, '/')", "strchr(this->s, i)", "strtok(this->s, this->r)", "strtok(NULL, this->r)",
		"json(this->s, \"k.n[1]\")", "json(this->s, \"[2].k\")", "json(this->s, this->r)"} {
		b.WriteString(table([]string{f}, "[%s]"))
		b.WriteString(table([]string{f + " == NULL"}, "%d"))
	}
	for _, strsize := range []int{256, 64, 16} {
		t.Run(fmt.Sprint(strsize), func(t *testing.T) {
			fire(t, b.String(), len(all)*len(all), strsize)
		})
	}
}

// TestNumbers has the subroutines of numbers over all operands.
func TestNumbers(t *testing.T) {
	head, size := operands()
	var exprs, strs []string
	for _, f := range []string{"htons", "htonl", "htonll", "ntohs", "ntohl", "ntohll", "getmajor", "getminor"} {
		exprs = append(exprs, f+"(b)", f+"(a)")
	}
	for _, base := range []string{"", ", 2", ", 8", ", 10", ", 16", ", 36", ", (int)(2 + (a & 15))"} {
		strs = append(strs, "lltostr(b"+base+")")
		exprs = append(exprs, "strtoll(lltostr(b"+base+")"+base+")")
	}
	fire(t, head+table(exprs, "%d")+table(strs, "%s"), size*4, 0)
}
