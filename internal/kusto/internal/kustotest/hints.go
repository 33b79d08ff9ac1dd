package kustotest

import (
	"errors"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kusto-agent/internal/kusto"
)

// hintTexts are the pieces of hints that stand in source files, with the place of
// each. What is no hint is short, a pattern, or what an error is searched for.
func hintTexts(t *testing.T, names ...string) map[string]string {
	t.Helper()
	const shortest = 25
	files, texts := token.NewFileSet(), make(map[string]string)
	for _, name := range names {
		file, err := goparser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CallExpr:
				if f, ok := x.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "MustCompile" || f.Sel.Name == "Contains") {
					return false
				}
			case *ast.BasicLit:
				text, err := strconv.Unquote(x.Value)
				if err != nil || x.Kind != token.STRING || strings.HasPrefix(text, "get token") {
					return true
				}
				for part := range strings.SplitSeq(text, "%s") {
					if len(part) >= shortest && strings.Contains(part, " ") {
						texts[part] = files.Position(x.Pos()).String()
					}
				}
			}
			return true
		})
	}
	return texts
}

// Hinted is one run of the table: what was reached.
type Hinted struct {
	*testing.T
	hints []string
}

// Says holds an error to what every message about a failure has to carry: the
// code, the words, the activity id, where there are any, and what to do.
func (h *Hinted) Says(name string, e *kusto.Error, hint string, words ...string) {
	h.Helper()
	if e == nil {
		h.Errorf("%s: no error", name)
		return
	}
	h.hints = append(h.hints, e.Hint)
	for _, w := range words {
		if !strings.Contains(e.Error(), w) {
			h.Errorf("%s: %q is not in %q", name, w, e.Error())
		}
	}
	if !strings.Contains(e.Hint, hint) || e.Hint == "" {
		h.Errorf("%s: the hint is %q, want %q", name, e.Hint, hint)
	}
	if e.ActivityID != "" && !strings.Contains(e.Error(), e.ActivityID) {
		h.Errorf("%s: the activity is not in %q", name, e.Error())
	}
}

// Covers fails for each text of a hint in the files that no call of Says has reached.
// filled are pairs of a place in a hint and what stands there in the test.
func (h *Hinted) Covers(files []string, filled ...string) {
	h.Helper()
	for text, place := range hintTexts(h.T, files...) {
		if !slices.ContainsFunc(h.hints, func(hint string) bool {
			return strings.Contains(hint, text) || strings.Contains(hint, strings.NewReplacer(filled...).Replace(text))
		}) {
			h.Errorf("%s: no row reaches %q", place, text)
		}
	}
}

// Last is the hint of the last error.
func (h *Hinted) Last() string { return h.hints[len(h.hints)-1] }

// ErrorOf is the error of the service in err; nil: there is none.
func ErrorOf(err error) *kusto.Error {
	var e *kusto.Error
	errors.As(err, &e)
	return e
}
