package config

import (
	"bytes"
	"os"
	"regexp"
	"testing"
)

// TestReference: the page of the documentation is the one that is written now, and has
// every key.
func TestReference(t *testing.T) {
	page := Reference()
	for _, key := range Keys() {
		if !bytes.Contains(page, []byte("\n| `"+key+"` | ")) {
			t.Errorf("the page lacks %s", key)
		}
	}
	is, err := os.ReadFile("../../docs/configuration.md")
	if err != nil || !bytes.Equal(is, page) {
		t.Errorf("docs/configuration.md is not what kusto-agent config reference prints; run go generate ./cmd/agent (%v)", err)
	}
}

var needsRestart = regexp.MustCompile("needs? a restart")

// TestReferenceOfRestarts: what a reload does not change is said of each key of that kind, and of no other.
func TestReferenceOfRestarts(t *testing.T) {
	restart := make(map[string]bool)
	for _, f := range fixed {
		restart[f.key] = true
	}
	for _, key := range Keys() {
		if says := needsRestart.MatchString(textOf(key).about); says != restart[key] {
			t.Errorf("%s: a change needs a restart: %v; its text says so: %v", key, restart[key], says)
		}
	}
}

// TestReferenceOfLists: of a key that takes several of its words, the page does not say one of them.
func TestReferenceOfLists(t *testing.T) {
	const row = "*One of `bearer`, `card`, `email`, `ipv4`, or a list of them.*"
	if page := Reference(); !bytes.Contains(page, []byte(row)) {
		t.Errorf("the page lacks %s", row)
	}
}
