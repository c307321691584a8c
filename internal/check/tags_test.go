package check

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"godtrace/internal/syntax"
)

// TestTags: every tag of the compiler's errors is in the one table of them,
// every tag of the table is raised somewhere, and a program of test/d
// shows each.
func TestTags(t *testing.T) {
	raised := tagsInCode(t)
	for _, c := range syntax.Codes {
		if raised[c.Tag] == "" {
			t.Errorf("%s is in syntax.Codes, but nothing raises it", c.Tag)
		}
		if files, err := filepath.Glob("../../test/d/err." + c.Tag + ".*.d"); err != nil || len(files) == 0 {
			t.Errorf("no err.%s.*.d shows what raises %s", c.Tag, c.Tag)
		}
	}
	for tag, where := range raised {
		if _, ok := syntax.LookupCode(tag); !ok {
			t.Errorf("%s: %s is not in syntax.Codes", where, tag)
		}
	}
	files, err := filepath.Glob("../../test/d/err.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, ok := syntax.LookupCode(strings.Split(filepath.Base(f), ".")[1]); !ok {
			t.Errorf("%s: no such tag", f)
		}
	}
}

var tagPattern = regexp.MustCompile(`^D_[A-Z0-9_]+$`)

// tagsInCode finds the tags that stand as string constants in the source of the
// project, the table itself apart, with the place of the first.
func tagsInCode(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	set := token.NewFileSet()
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "testdata" || e.Name() == ".git" || e.Name() == "test"):
			return filepath.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"),
			strings.HasSuffix(path, "internal/syntax/codes.go"):
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			// Comparing with a tag does not raise it.
			if fn, ok := n.(*ast.FuncDecl); ok && fn.Name.Name == "outsideRegions" {
				return false
			}
			if b, ok := n.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
				return false
			}
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && tagPattern.MatchString(s) && found[s] == "" {
					found[s] = set.Position(lit.Pos()).String()
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
