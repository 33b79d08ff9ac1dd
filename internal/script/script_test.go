package script

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		var got []string
		for _, s := range Split(text) {
			got = append(got, s.Text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
	f("")
	f(" \n// nothing\n\n ; ;\n")
	f("T", "T")
	f("T;", "T")
	f("T\n| take 1\n\nU", "T\n| take 1", "U")
	f("T\r\n| take 1\r\n\r\nU\r\n", "T\r\n| take 1", "U")
	f("T\n\n| take 1", "T\n\n| take 1")
	f("T; U;V", "T", "U", "V")

	// What is quoted, in brackets or in a comment ends nothing.
	f(`print "a;b", 'c;d', @"e\"; print h'f;\'g'`, `print "a;b", 'c;d', @"e\"`, `print h'f;\'g'`)
	f(`print @'it''s;'; U`, `print @'it''s;'`, "U")
	f("print ```a;\n\nb```; U", "print ```a;\n\nb```", "U")
	f("print 1 // one; two\n; U", "print 1 // one; two", "U")
	f("let f = (x:long) { let y = x;\n\nT | where n > y };\nf(1); f(2)",
		"let f = (x:long) { let y = x;\n\nT | where n > y };\nf(1)", "let f = (x:long) { let y = x;\n\nT | where n > y };\nf(2)")
	f("print 'it is open\n; U", "print 'it is open", "U")
	f("// of T\nT\n\n// of U\n// too\nU\n\n// of none\n", "// of T\nT", "// of U\n// too\nU")

	// What prepares goes before every query of its block, or of the next.
	f("let x = 1; T | where n == x; U | where n == x\n\nV", "let x = 1;\nT | where n == x", "let x = 1;\nU | where n == x", "V")
	f("set notruncation;\ndeclare query_parameters(n:long);\n\nT", "set notruncation;\ndeclare query_parameters(n:long);\nT")
	f("let x = 1; T; let y = 2; U", "let x = 1;\nT", "let x = 1;\nlet y = 2;\nU")
	f("T; let y = 2;\n\nU", "T", "let y = 2;\nU")
	f("let x = 1;", "let x = 1")
	f("letters | take 1; T", "letters | take 1", "T")

	// Commands.
	f(".show tables; .show databases\n\n.create table T (a:int)", ".show tables", ".show databases", ".create table T (a:int)")
	f(".set-or-append T <| let x = 1; U | where n == x\n\n.show tables", ".set-or-append T <| let x = 1; U | where n == x", ".show tables")
	f(".ingest inline into table T <|\n1,\"a;(\n2,b\n\nT", ".ingest inline into table T <|\n1,\"a;(\n2,b", "T")
	f(".execute database script <|\n.create table T (a:int)\n\n.show tables", ".execute database script <|\n.create table T (a:int)\n\n.show tables")
	f("// why\n.show tables; T", "// why\n.show tables", "T")
	f(`.add table T ingestors ("aadapp=a;b")`, `.add table T ingestors ("aadapp=a;b")`)
}

func TestLines(t *testing.T) {
	var lines []int
	for _, s := range Split("\n// c\n\nT\n| x\n\n\nlet a = 1;\nU; V\n") {
		lines = append(lines, s.Line)
	}
	if !slices.Equal(lines, []int{4, 8, 8}) {
		t.Error(lines)
	}
}

func TestComplete(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		if got := Complete(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	f("\n", true)
	f("T\n", false)
	f("T;\n", true)
	f("T; // the end\n", true)
	f("T\n\n", true)
	f("T\n| take 1\n", false)
	f("T\n| where s == ';'\n", false)
	f("T; U\n", false)
	f("print (\n\n", true)
	f("let x = 1;\n", false)
	f("let x = 1;\n\n", false)
	f("let x = 1;\n\n\n", true)
	f("let x = 1;\nT;\n", true)
	f("// a question\n", true)
}

// between is what may stand between two pieces.
var between = regexp.MustCompile(`^(?:[ \t\r\n]|;|//[^\n]*)*$`)

// FuzzSplit: the pieces of a text stand in it in their order, and between them is
// nothing that would be sent.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"T; U\n\nV", "let x = 1; T", ".ingest inline <|\n1;2\n\nT", "print @\"a\"\"b\"", "a //b\n\nc", "```;", "// a\n\n//b\nT"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		end := 0
		for _, p := range pieces(text, false) {
			if p.at < end || p.text == "" || !strings.HasPrefix(text[p.at:], p.text) || !between.MatchString(text[end:p.at]) {
				t.Fatalf("%q: %q at %d", text, p.text, p.at)
			}
			end = p.at + len(p.text)
		}
		if !between.MatchString(text[end:]) {
			t.Fatalf("%q: %q is lost", text, text[end:])
		}
		for _, s := range Split(text) {
			if strings.Count(text, "\n") < s.Line-1 || s.Line < 1 {
				t.Fatalf("%q: line %d", text, s.Line)
			}
		}
	})
}

func TestQuoted(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		if got := Quoted(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	f("", false)
	f("T | where s == ", false)
	f("T | where s == '", true)
	f("T | where s == 'a", true)
	f("T | where s == 'a'", false)
	f(`T | where s == "a\"`, true)
	f(`T | where s == @"a\"`, false)
	f("T // all", true)
	f("T // all\n", false)
	f("T /", false)
	f("print ```a", true)
	f("print ```a```", false)
}
