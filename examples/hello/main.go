// Hello is a whole consumer: it traces a program in D, the one on its command
// line if there is one, until that calls exit().
package main

import (
	"log"
	"os"

	"godtrace"
)

func main() {
	src := append(os.Args, `BEGIN { printf("hello from %s", execname); exit(0); }`)[1]
	s, err := godtrace.Open()
	check(err)
	defer s.Close()
	s.Output = os.Stdout
	p, err := s.Compile(src, godtrace.CompileOptions{})
	check(err)
	_, err = s.Exec(p)
	check(err)
	check(s.Go())
	for st := godtrace.Okay; st != godtrace.Done; {
		st, err = s.Work()
		check(err)
	}
}

func check(err error) {
	if err != nil {
		log.Fatalln(err, godtrace.Hint(err))
	}
}
