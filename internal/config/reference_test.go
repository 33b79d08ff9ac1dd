package config

import (
	"bytes"
	"os"
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
