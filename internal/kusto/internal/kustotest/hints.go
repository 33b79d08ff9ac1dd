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

// hintTexts returns the string literals in the Go files of these names that are parts of hints,
// each as a key with its file and line. A literal is divided at "%s". Literals of less than 25
// bytes or without a space, arguments of MustCompile and Contains, and those that begin with "get
// token" are not hints.
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

// Says fails the test unless the text of the error contains the words, and its activity id if it
// has one, and its hint contains the given hint. name names the case in messages. The hint counts
// as tested for Covers.
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

// Covers fails the test for each hint in the source files that no call of Says has tested. filled
// are pairs of a placeholder in hints, such as "<tenant>", and its value in the test.
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

// ErrorOf returns the *kusto.Error in err; nil if there is none.
func ErrorOf(err error) *kusto.Error {
	var e *kusto.Error
	errors.As(err, &e)
	return e
}
