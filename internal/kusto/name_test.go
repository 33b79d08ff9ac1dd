package kusto_test

import (
	"strings"
	"testing"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
)

func TestValidName(t *testing.T) {
	f := func(name string, want bool) {
		t.Helper()
		if err := kusto.ValidName("table", name); (err == nil) != want {
			t.Errorf("%q: got %v, want valid %v", name, err, want)
		} else if err != nil {
			kustotest.MustBePrintable(t, err.Error())
		}
	}
	for _, name := range []string{"T", "my table", "a.b-c_d 9", "...", "Größe", "表", strings.Repeat("x", 1024)} {
		f(name, true)
	}
	for _, name := range []string{
		"", ".", "..", " ", "   ", "a/b", `a\b`, "../mgmt", "a%2fb", "a?b", "a#b", "a\x00b", "a\r\nb", "a\u202eb", "a\u200fb", "a'b", `a"b`, "a\tb", "a;b", "a:b", "\xff",
		strings.Repeat("x", 1025), strings.Repeat("x", 2048),
	} {
		f(name, false)
	}
}

func TestKQLQuoting(t *testing.T) {
	if got, want := kusto.EntityName(`a'b\c`+"\n"), `['a\'b\\c\n']`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := kusto.StringLiteral(`a"b'c`), `"a\"b'c"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
