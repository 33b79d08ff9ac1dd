package commands

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
)

// TestWhereStatusAsks: where no agent answers, the error says where one was asked and, if the
// configuration does not say where it listens, why.
func TestWhereStatusAsks(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := func(w watched, says ...string) {
		t.Helper()
		_, err := w.fetch(t.Context())
		var ended *exit.Error
		if !errors.As(err, &ended) || ended.Code != exit.Unreachable {
			t.Fatalf("%+v: %v", w, err)
		}
		for _, want := range says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v; want %s", w, err, want)
			}
		}
	}
	off := write("off.yaml", "cluster: http://127.0.0.1:1\ndatabase: L\nauth: {method: none}\nstate_dir: "+dir+"/state\n"+
		"telemetry: {listen: \"\"}\ninputs: [{paths: [/none/*.log], table: T}]\n")
	f(watched{path: off, named: true}, "no agent answers in "+dir+"/state")
	if c, err := net.Dial("tcp", telemetry.DefaultConfig().Listen); err == nil {
		c.Close()
		t.Skip("an agent listens at the default address")
	}
	f(watched{path: filepath.Join(dir, "none.yaml"), named: true}, "it was asked there, the default", "none.yaml", "no such file")
	f(watched{path: write("bad.yaml", "x: 1\n")}, "it was asked there, the default", "bad.yaml:1:1", "unknown key")
	f(watched{path: filepath.Join(dir, "none.yaml")}, "is it running")
}
