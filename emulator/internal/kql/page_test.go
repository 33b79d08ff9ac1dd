package kql

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPage: docs/kql.md names all that is known, and its table of functions nothing
// that is not.
func TestPage(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/kql.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	named := make(map[string]bool)
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(page, -1) {
		for word := range strings.FieldsSeq(strings.Trim(m[1], "()…")) {
			named[strings.TrimSuffix(word, "()")] = true
		}
	}
	want := func(name string) {
		t.Helper()
		if !named[name] {
			t.Errorf("the page does not name %s", name)
		}
	}
	for name := range functions {
		want(name)
	}
	for name := range aggregateFunctions {
		want(name)
	}
	for name := range operators {
		want(name)
	}
	for name := range kinds {
		want(name)
	}
	for name := range textTests {
		want(strings.TrimSuffix(name, "_cs"))
	}
	_, table, _ := strings.Cut(page, "## Functions")
	table, _, _ = strings.Cut(table, "## Limits")
	for _, m := range regexp.MustCompile("`([a-z_0-9]+)`").FindAllStringSubmatch(table, -1) {
		_, known := functions[m[1]]
		if !known && aggregateFunctions[m[1]] == nil && m[1] != "toscalar" && m[1] != "summarize" {
			t.Errorf("the page names %s, which is not known", m[1])
		}
	}
}
