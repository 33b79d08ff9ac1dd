package units

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
)

// bareCount is a number in a format, with the word before it, and a noun in plural behind it.
var bareCount = regexp.MustCompile(`(?:([a-z]+) )?%[dv] (?:more )?(?:` + strings.Join([]string{
	"batches", "cells", "clusters", "columns", "entries", "errors", "files", "folders", "inputs", "keys", "lines", "objects",
	"payloads", "problems", "records", "requests", "rows", "segments", "tables", "values",
}, "|") + `)\b`)

// bounds are the words before a number that is a limit of the program, which is never 1.
var bounds = map[string]bool{"than": true, "most": true, "least": true, "to": true}

// TestCountsHaveASingular: no text of the program has a noun in plural behind a number that can be 1:
// Counted writes both. Numbers of bytes may, as those are seldom 1.
func TestCountsHaveASingular(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bench" || d.Name() == "emulator" || d.Name() == ".git"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Errorf("%v: %v", set.Position(lit.Pos()), err)
			}
			for _, found := range bareCount.FindAllStringSubmatch(text, -1) {
				if !bounds[found[1]] {
					t.Errorf("%v: %q has no singular; write units.Counted(n, noun)", set.Position(lit.Pos()), found[0])
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files were read: %v", files, err)
	}
}

func TestCounted(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(Counted(0, "record"), "0 records")
	f(Counted(1, "record"), "1 record")
	f(Counted(2, "record"), "2 records")
	f(Counted(-2, "record"), "-2 records")
	f(Counted(uint64(1<<63), "byte"), "9223372036854775808 bytes")
	f(Counted(1, "batch"), "1 batch")
	f(Counted(2, "batch"), "2 batches")
}
