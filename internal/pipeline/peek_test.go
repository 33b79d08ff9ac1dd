package pipeline

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"kusto-agent/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPeek: the first payload that a run would send, and where there is none, why.
func TestPeek(t *testing.T) {
	t.Parallel()
	f := func(name, input string, files map[string]string, body, places string, rejected int, why string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			text := "cluster: http://127.0.0.1:1\ndatabase: D\nauth: {method: none}\nstate_dir: " + dir + "/state\n" +
				"inputs: [{" + strings.ReplaceAll(input, "$DIR", dir) + "}]\n"
			cfg, err := config.Parse("agent.yaml", []byte(text), os.LookupEnv, config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			past, err := Past(cfg)
			if err != nil {
				t.Fatal(err)
			}
			peek := NewPeek(cfg, past)
			p, err := peek.First(context.Background(), &cfg.Inputs[0])
			if err != nil {
				t.Fatal(err)
			}
			if got := peek.Rejected(); len(got) != rejected || rejected > 0 && got[0].Data != nil {
				t.Errorf("refuses %+v, want %d", got, rejected)
			}
			if p == nil {
				if got := peek.Why(); body != "" || !strings.Contains(got, why) {
					t.Errorf("there is nothing, since %s", got)
				}
			} else {
				raw, err := Raw(p)
				if at := strings.ReplaceAll(peek.Places(p), dir, "$DIR"); err != nil || string(raw) != body || at != places {
					t.Errorf("%q at %s, %v; want %q at %s", raw, at, err, body, places)
				}
			}
			if _, err := os.Lstat(cfg.StateDir); err == nil {
				t.Error("it makes state_dir")
			}
		})
	}
	const lines = `paths: ["$DIR/*.log"], table: T`
	const objects = `paths: ["$DIR/*.json"], table: T, mapping: m`
	f("one file", lines, map[string]string{"a.log": "one\ntwo\n"}, "one\ntwo\n", "$DIR/a.log 0 to 8", 0, "")
	f("no file", lines, nil, "", "", 0, "no file matches its paths")
	f("an empty file", lines, map[string]string{"a.log": ""}, "", "", 0, "its files hold nothing that is not accepted, in the spool")
	f("one record is refused", objects, map[string]string{"a.json": "{]\n{\"a\":1}\n"}, "{\"a\":1}\n", "$DIR/a.json 0 to 11", 1, "")
	f("all are refused", objects, map[string]string{"a.json": "{]\n[}\n"}, "", "", 2, "2 records would go to quarantine, and no other was read")
}

// TestPeekIsStopped: who does not want to wait any longer gets no payload.
func TestPeekIsStopped(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("agent.yaml", []byte("cluster: http://127.0.0.1:1\ndatabase: D\nauth: {method: none}\nstate_dir: "+t.TempDir()+
		"\ninputs: [{paths: [/nowhere/*.log], table: T}]\n"), os.LookupEnv, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if p, _ := NewPeek(cfg, nil).First(ctx, &cfg.Inputs[0]); p != nil {
		t.Errorf("there is %v", p)
	}
}
